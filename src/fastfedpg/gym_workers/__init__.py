"""What plays environments in processes of their own: loaded there, where neither JAX nor its adapters are needed."""
