#!/bin/sh
# As root, in this folder: the user, folders, keys and unit of agent {{agent}}'s site.
set -e
cd "$(dirname "$0")"
agent={{user}}-agent
id -u $agent > /dev/null 2>&1 ||
    useradd --system --user-group --home-dir /var/lib/fastfedpg-agent --no-create-home --shell /usr/sbin/nologin $agent
install -d -m 755 /etc/fastfedpg
install -d -o $agent -g $agent -m 700 /etc/fastfedpg/agent
install -o $agent -g $agent -m 644 ca.crt /etc/fastfedpg/agent
install -o $agent -g $agent -m 600 agent-{{agent}} /etc/fastfedpg/agent
[ -e /etc/fastfedpg/agent/agent.toml ] || install -o $agent -g $agent -m 600 agent.toml /etc/fastfedpg/agent
install -m 644 fastfedpg-agent.service /etc/systemd/system/
