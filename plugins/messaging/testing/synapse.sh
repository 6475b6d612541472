#!/bin/sh
# Builds a Synapse of its own in a folder and starts it on this machine, for `plugins/messaging/test/synapse.test.ts`. Nothing
# is installed outside of the folder. As root with debootstrap it is Debian's package in a folder of its own; else pip's, which
# needs Python 3.10 or newer. SYNAPSE_SUITE (sid) and SYNAPSE_MIRROR (debootstrap's own) say from where it comes.
#
#   sh plugins/messaging/testing/synapse.sh .synapse
#   SYNAPSE_URL=http://127.0.0.1:8448 npx vitest run plugins/messaging/test/synapse.test.ts
#   kill $(cat .synapse/data/synapse.pid)
set -eu

folder=${1:?Name the folder: sh plugins/messaging/testing/synapse.sh .synapse}
port=${SYNAPSE_PORT:-8448}
suite=${SYNAPSE_SUITE:-sid}
release=${SYNAPSE_VERSION:-1.163.2}

mkdir -p "$folder/data"
folder=$(cd "$folder" && pwd)

from_debian() {
  command -v debootstrap > /dev/null && [ "$(id -u)" = 0 ] || return 1
  [ -x "$folder/debian/usr/bin/synapse_homeserver" ] && return 0
  debootstrap --variant=minbase "$suite" "$folder/debian" ${SYNAPSE_MIRROR:-} > "$folder/build.log" 2>&1 || return 1
  # No service of the package starts here.
  printf '#!/bin/sh\nexit 101\n' > "$folder/debian/usr/sbin/policy-rc.d"
  chmod +x "$folder/debian/usr/sbin/policy-rc.d"
  # A suite that moves may lie on a mirror for longer than its date says; its signature is checked all the same.
  DEBIAN_FRONTEND=noninteractive chroot "$folder/debian" sh -c 'apt-get -qq -o Acquire::Check-Valid-Until=no update &&
    apt-get -qq install -y --no-install-recommends matrix-synapse' >> "$folder/build.log" 2>&1
}

from_pip() {
  [ -x "$folder/bin/synapse_homeserver" ] && return 0
  python3 -m venv "$folder" && "$folder/bin/pip" install --quiet "matrix-synapse==$release" >> "$folder/build.log" 2>&1
}

# `data` is the folder of the data as Synapse sees it.
if from_debian; then
  data=/srv/synapse
  register=synapse_register_new_matrix_user
  mkdir -p "$folder/debian/srv"
  [ -e "$folder/debian$data" ] || mv "$folder/data" "$folder/debian$data"
  ln -sfn "debian$data" "$folder/data"
  inside() { chroot "$folder/debian" "$@"; }
  module() { inside python3 -m "$@"; }
elif from_pip; then
  data=$folder/data
  register=register_new_matrix_user
  inside() { command=$1; shift; "$folder/bin/$command" "$@"; }
  module() { "$folder/bin/python" -m "$@"; }
else
  echo "Neither Debian's $suite nor pip gives a matrix-synapse here: Synapse cannot be built. See $folder/build.log" >&2
  exit 3
fi

secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
if [ ! -f "$folder/data/homeserver.yaml" ]; then
  cat > "$folder/data/homeserver.yaml" <<YAML
server_name: home.test
pid_file: $data/synapse.pid
report_stats: false
log_config: $data/log.yaml
signing_key_path: $data/signing.key
media_store_path: $data/media
database: { name: sqlite3, args: { database: $data/synapse.db } }
listeners:
  - { port: $port, bind_addresses: ['127.0.0.1'], type: http, resources: [{ names: [client, openid] }] }
registration_shared_secret: $(secret)
macaroon_secret_key: $(secret)
form_secret: $(secret)
trusted_key_servers: []
federation_domain_whitelist: []
presence: { enabled: false }
rc_login: { address: { per_second: 1000, burst_count: 1000 }, account: { per_second: 1000, burst_count: 1000 } }
rc_invites: { per_room: { per_second: 1000, burst_count: 1000 }, per_user: { per_second: 1000, burst_count: 1000 } }
rc_joins: { local: { per_second: 1000, burst_count: 1000 } }
YAML
  cat > "$folder/data/log.yaml" <<YAML
version: 1
formatters: { plain: { format: '%(asctime)s %(levelname)s %(name)s %(message)s' } }
handlers: { file: { class: logging.FileHandler, filename: $data/synapse.log, formatter: plain } }
root: { level: WARNING, handlers: [file] }
YAML
  module synapse.app.homeserver -c "$data/homeserver.yaml" --generate-keys
fi
module synapse.app.homeserver -c "$data/homeserver.yaml" --daemonize > /dev/null

left=120
until curl -sf "http://127.0.0.1:$port/_matrix/client/versions" > /dev/null; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "Synapse does not listen: see $folder/data/synapse.log" >&2; exit 1; }
  sleep 0.5
done
for name in oracle limited ann bob; do
  inside $register -c "$data/homeserver.yaml" -u "$name" -p "$name-password" --no-admin \
    "http://127.0.0.1:$port" > "$folder/register.log" 2>&1 || grep -q 'already taken' "$folder/register.log"
done
# The messages of `limited` are held back by Synapse's own limits; those of the others are not, as docs/messaging.md has operators set it.
inside python3 - "$data/synapse.db" << 'PYTHON'
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=30) as db:
    for name in ('oracle', 'ann', 'bob'):
        account = '@' + name + ':home.test'
        db.execute('delete from ratelimit_override where user_id = ?', (account,))
        db.execute('insert into ratelimit_override values (?, 0, 0)', (account,))
PYTHON
echo "Synapse listens on http://127.0.0.1:$port. kill \$(cat $folder/data/synapse.pid) ends it."
