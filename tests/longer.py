"""Which tests `make test` leaves to the part `long`, and which rows of them stay.

Each costs a second and a half of CPU time or more, nearly all of it compiling, and has neighbours that hold the same
part of the code; a mark beside a test says the same of one that was long from the start. `make test` has 12 minutes on
two cores: this is where to look when it has more. A name that is not there any more fails (`test_tests.py`).
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LEFT: dict[str, dict[str, tuple[str, ...]]] = {
    "algorithms/test_adaptive_anchor.py": {
        "test_q_is_where_the_sum_is_least": (),
        "test_noise_alone_asks_for_more_than_half_at_the_start": (),
    },
    "algorithms/test_algorithms.py": {
        "test_the_compromise_grid_exact": (),
    },
    "algorithms/test_bias.py": {
        "test_fedavgs_bias_is_eta_half_of_h_less_one_times_the_conflict": ("lqr",),
    },
    "algorithms/test_combine.py": {
        "test_loop_equals_simulate": ("None-mixing", "4-krum"),
    },
    "algorithms/test_compressed.py": {
        "test_loop_equals_simulate": ("two vectors",),
        "test_the_identity_changes_nothing_to_the_bit": ("False-<lambda>0",),
        "test_a_float32_theta_stays_float32": (),
    },
    "algorithms/test_conformance.py": {
        "test_one_agent_with_noise_equals_fedavg": (),
    },
    "algorithms/test_decentralised.py": {
        "test_agents_on_a_graph_measure_their_observations_together": (),
        "test_permuting_the_agents_with_their_weights_changes_nothing": ("decentralised_pg",),
        "test_the_mean_of_v_is_the_mean_of_u": ("3",),
    },
    "algorithms/test_fedkl.py": {
        "test_penalties_adapt_to_their_targets": (),
        "test_without_penalties_and_in_one_step_it_is_fedavg": ("3",),
        "test_there_are_no_more_parts_than_trajectories": (),
        "test_parts_of_an_epoch_are_all_of_the_batch": (),
    },
    "algorithms/test_fedlin_pg.py": {
        "test_with_reuse_one_estimate_less_would_be_drawn": (),
        "test_all_entries_are_as_good_as_none_left_out": (),
        "test_loop_equals_simulate_with_noise_and_with_some_agents": (),
    },
    "algorithms/test_fedpg_br.py": {
        "test_with_weights_it_is_the_method_with_truncated_gradients": (),
        "test_agent_0_alone_plays_for_the_server": (),
    },
    "algorithms/test_heavy_anchor.py": {
        "test_at_a_stationary_point_of_J_nobody_moves": ("1",),
    },
    "algorithms/test_incremental_pg.py": {
        "test_the_bias_of_a_constant_step": ("lqr",),
    },
    "algorithms/test_mfpo.py": {
        "test_without_a_past_it_is_fedavg": (),
    },
    "algorithms/test_natural.py": {
        "test_on_the_complete_graph_tracking_is_the_centralised_natural_gradient": ("0.1",),
        "test_steps_are_of_a_length_in_kl_or_plain": (),
    },
    "algorithms/test_openings.py": {
        "test_measured_once_and_never_changed": ("fast_fedpg", "fedavg_pg"),
        "test_optimisers_against_loops_and_afresh_in_every_round": ("adam-adam",),
        "test_the_optimum_stays_where_it_is": ("momentum",),
    },
    "algorithms/test_rc_pg.py": {
        "test_noise_alone_is_not_corrected": (),
    },
    "cli/test_advise.py": {
        "test_trajectories_are_advised_unless_they_are_given": (),
        "test_theorem_2_speaks_where_it_applies": (),
        "test_exact_gradients_that_differ_ask_for_a_correction": (),
        "test_agents_that_are_alike_ask_for_plain_averaging": (),
        "test_too_few_samples_say_how_many_it_takes": (),
        "test_a_resumed_run_does_not_decide_anew": (),
    },
    "cli/test_cli.py": {
        "test_progress_is_a_bar_on_a_terminal": (),
        "test_every_algorithm_runs_by_its_name": ("personal_heads", "independent_pg", "fast_fedpg"),
        "test_participants": (),
        "test_agents_whose_dynamics_differ": (),
        "test_problem_args_and_agents": (),
    },
    "cli/test_environments.py": {
        "test_what_fails_is_named_and_the_last_checkpoint_kept": ("hangs",),
    },
    "cli/test_errors.py": {
        "test_nohup_is_respected": (),
        "test_a_reader_that_goes_away_does_not_end_the_run": (),
        "test_the_advised_reward_range_is_accepted": (),
    },
    "cli/test_output.py": {
        "test_a_stream_that_is_closed_is_none_that_anybody_misses": ("list", "nonsense"),
        "test_a_full_device_is_one_message": ("list", "--help"),
        "test_a_reader_that_has_gone_hears_nothing_of_it": (),
        "test_messages_that_nobody_can_read_end_no_run": (),
    },
    "cli/test_own_code.py": {
        "test_close_may_leave_and_may_hang": (),
        "test_what_an_algorithm_raises_in_a_comparison_is_one_line_with_its_name": ("raises-tuned", "raises-run"),
    },
    "comparison/test_labels.py": {
        "test_tuning_over_more_than_step_sizes": (),
        "test_a_sweep_is_every_combination": (),
        "test_one_algorithm_three_times": (),
    },
    "comparison/test_many_seeds.py": {
        "test_columns_that_are_resampled_share_what_is_drawn": (),
    },
    "comparison/test_phases.py": {
        "test_who_is_the_best_and_what_is_measured_there": (),
    },
    "comparison/test_repeats.py": {
        "test_calm_runs_say_so_and_are_not_repeated_again": (),
    },
    "comparison/test_sensitivity.py": {
        "test_few_seeds_are_said_where_there_is_noise": (),
    },
    "comparison/test_study.py": {
        "test_a_problem_from_a_file_stands_in_its_comparison_s_folder": (),
    },
    "comparison/test_sums.py": {
        "test_runs_that_have_ended_can_be_shown_by_another_version": (),
        "test_runs_that_have_not_ended_go_on_only_with_what_they_were_tuned_with": (),
    },
    "comparison/test_table.py": {
        "test_seeds_differ_where_it_is_said_with_exact_gradients_too": (
            "fedavg_pg 2-",
            "proxskip_pg",
            "incremental_pg",
        ),
        "test_pngs_and_svgs": (),
        "test_large_steps_show_one": (),
        "test_small_steps_show_no_difference": (),
    },
    "draw/test_figures.py": {
        "test_every_problem_has_a_portrait": ("mazes", "taxi", "hard-mdp", "compromise"),
        "test_show_takes_arguments_and_files": (),
        "test_figures_of_real_runs": (),
        "test_files_are_whole_and_legends_name_all_methods": ("2",),
    },
    "draw/test_film.py": {
        "test_every_method_of_a_comparison": (),
        "test_what_is_there_is_replaced_only_if_asked_for": (),
    },
    "envs/test_offices.py": {
        "test_years_are_the_sums_of_their_hours": (),
        "test_a_search_finds_what_years_say": (),
    },
    "envs/test_probes.py": {
        "test_every_estimate_has_the_mean_that_is_known": ("squashed",),
        "test_learning_comes_close_to_the_best": ("by_force",),
    },
    "experiment/test_learned.py": {
        "test_a_run_in_environments_of_our_own": (),
        "test_evaluation_in_an_environment_that_is_given": (),
    },
    "experiment/test_own_algorithm.py": {
        "test_both_names_in_a_comparison_and_a_cell": (),
        "test_without_a_pull_it_is_fedavg_and_with_one_it_is_not": (),
        "test_an_algorithm_without_eta_runs_is_compared_and_is_not_tuned": (),
        "test_it_is_compared_under_labels_and_resumed": (),
        "test_a_sweep_of_an_own_setting_is_resumed": (),
    },
    "experiment/test_own_files.py": {
        "test_a_comparison_is_not_replaced_while_another_process_is_at_work_in_a_cell_of_it": ("words1",),
    },
    "experiment/test_presets.py": {
        "test_a_preset_gives_the_defaults": (),
    },
    "federation/test_deployment.py": {
        "test_asked_twice_to_end_it_still_tidies_up": (),
    },
    "federation/test_equals_simulation.py": {
        "test_another_algorithm_is_found_out": ("local steps", "start"),
        "test_private_keys_pass_as_often_as_they_should": (),
    },
    "federation/test_kit.py": {
        "test_the_pages_example_prints_what_the_page_says": (),
    },
    "federation/test_node.py": {
        "test_a_run_leaves_nothing_at_a_superlink_that_starts_again_in_its_middle": (),
    },
    "federation/test_own_servers.py": {
        "test_gossip_over_an_engine_is_the_simulation": ("sampled-2", "exact-None"),
        "test_policies_are_recorded_as_their_agents_make_them": (),
    },
    "gym_workers/test_ends.py": {
        "test_the_command_says_one_line": ("step 40",),
        "test_ctrl_c_in_a_callback_is_ctrl_c": ("step 40-loop",),
    },
    "gym_workers/test_flatten.py": {
        "test_vectors_of_them_are_the_same_trajectories": ("space0",),
    },
    "gym_workers/test_gymnasium.py": {
        "test_rewards_of_mujoco_families": ("half_cheetah_dir",),
        "test_frozen_lake_has_its_own_value": (),
    },
    "kernels/test_cache.py": {
        "test_the_planted_library_would_run_if_it_were_ours": (),
        "test_which_implementation_is_in_use_has_a_name": (),
    },
    "kernels/test_equal_bits.py": {
        "test_after_a_run": ("random",),
    },
    "kernels/test_kernels.py": {
        "test_half_of_it_is_compiled_again": (),
        "test_a_compiler_that_makes_something_else_is_not_believed": (),
    },
    "mdp/test_sparse.py": {
        "test_what_is_known_of_a_problem_is_the_same": ("True-", "False-J_i"),
        "test_every_function_gives_what_it_gives_for_the_dense_kernel": ("iterated-0.0", "factorised-0.3"),
        "test_oracles_that_know_the_mdp": ("exact-True", "truncated-False"),
    },
    "oracles/test_answers.py": {
        "test_gradient_is_that_of_credit_times_log_prob": ("actor_critic", "gpomdp", "leave-one-out", "entropy"),
        "test_a_batch_is_kept_between_exchanges": ("2-simulate", "None-loop"),
    },
    "oracles/test_played.py": {
        "test_the_loop_and_the_simulation_agree": ("leave-one-out",),
        "test_what_can_not_be_ends_the_run_in_words": ("reward-simulate", "observation-loop"),
        "test_means_are_the_exact_truncated_gradients": (),
        "test_reward_scale_scales_gradients_and_no_result": (),
        "test_a_finite_MDP_in_other_units_has_costs_of_the_same_size": (),
    },
    "oracles/test_ppo.py": {
        "test_fast_fedpg_on_one_batch_in_three_runtimes": (),
        "test_one_scale_for_all_agents_counts_them_as_J_does": (),
    },
    "policies/test_bits.py": {
        "test_fedavg_with_bits_learns_and_is_exported": (),
        "test_b_rs_fedpg_is_the_same_in_loop_simulation_and_over_flower": (),
    },
    "policies/test_entropy.py": {
        "test_an_oracle_tells_it_where_each_step_was_taken": (),
    },
    "policies/test_recurrent.py": {
        "test_ppo_takes_whole_lanes": (),
        "test_memory_is_worth_what_it_is": (),
    },
    "problems/test_lqr.py": {
        "test_noise_formula_is_what_a_simulation_finds": (),
        "test_a_comparison_and_a_portrait_in_words": (),
    },
    "problems/test_npz.py": {
        "test_what_is_saved_is_read_back_equal": ("taxi", "garnet", "random", "lqr", "compromise"),
        "test_the_page_draws_a_grid_of_ones_own": (),
        "test_a_run_keeps_the_name_of_its_file": (),
    },
    "runtime/test_info.py": {
        "test_extras_are_metrics": (),
        "test_the_mean_is_over_those_who_took_part": (),
    },
    "runtime/test_order.py": {
        "test_loop_equals_simulate": ("5-cyclic",),
    },
    "runtime/test_scale.py": {
        "test_the_second_run_compiles_nothing": (),
        "test_agents_in_batches_give_the_same_bits": ("None-1",),
        "test_a_task_of_its_own_kernels_is_split_too": (),
        "test_a_sweep_is_one_program_however_many_runs_it_has": (),
        "test_programs_are_forgotten_before_there_is_no_room_for_more": (),
    },
    "test_precision.py": {
        "test_float32_is_asked_for": ("compromise",),
        "test_runs": ("compromise",),
        "test_the_command_line": (),
    },
    "theory/test_smoothness_bound.py": {
        "test_a_search_over_mdps_policies_and_directions_does_not_break_the_bound": ("0.9-0.0", "0.9-1.0"),
    },
    "theory/test_theory.py": {
        "test_a_run_by_theorem_2": (),
    },
    "verify/test_floors.py": {
        "test_slopes_are_read_off_as_they_are": ("no speed-up", "nothing flattens"),
    },
    "verify/test_other_methods.py": {
        "test_model_averaging_is_biased": (),
        "test_fast_fedpg_in_the_place_of_fedavg_is_seen": (),
        "test_momentum_leaves_fedavgs_bias": (),
        "test_a_bias_negates_the_gains": (),
    },
    "verify/test_report.py": {
        "test_every_claim_is_in_the_file_and_the_table": (),
        "test_rewards_in_other_units": (),
    },
}
"""By file and function: how the names of those rows begin that stay."""


def leave(items: list[pytest.Item]) -> None:
    """Mark what is left to `long`."""
    for item in items:
        rows = LEFT.get(item.path.relative_to(HERE).as_posix(), {}).get(item.name.partition("[")[0])
        if rows is not None and not any(item.name.partition("[")[2].startswith(row) for row in rows):
            item.add_marker(pytest.mark.long)
