#!/bin/sh
# As root, in this folder: the server's users, folders, keys and units.
set -e
cd "$(dirname "$0")"
[ -x /usr/sbin/nginx ] || { echo "no nginx here: apt-get install nginx libnginx-mod-stream" >&2; exit 1; }
user() {
    id -u "$1" > /dev/null 2>&1 ||
        useradd --system --user-group --home-dir "$2" --no-create-home --shell /usr/sbin/nologin "$1"
}
user {{user}} /var/lib/fastfedpg-server
user {{user}}-nginx /var/cache/fastfedpg-nginx
install -d -m 755 /etc/fastfedpg
# Root owns the folder: what is in it is run by root.
install -d -o root -g {{user}} -m 750 /etc/fastfedpg/server
install -m 644 ca.crt server.pem agent-*.pub /etc/fastfedpg/server
install -o {{user}} -g {{user}} -m 600 server.key superlink.secret /etc/fastfedpg/server
install -m 755 as-server /etc/fastfedpg/server
[ -e /etc/fastfedpg/server/server.toml ] || install -m 644 server.toml /etc/fastfedpg/server
install -d -o root -g {{user}}-nginx -m 750 /etc/fastfedpg/nginx
install -m 644 ca.crt server.pem nginx.conf /etc/fastfedpg/nginx
install -o {{user}}-nginx -g {{user}}-nginx -m 600 server.key /etc/fastfedpg/nginx
install -d -o {{user}} -g {{user}} -m 700 /var/lib/fastfedpg-server /var/lib/fastfedpg-server/runs
install -m 644 fastfedpg-superlink.service fastfedpg-nginx.service /etc/systemd/system/
