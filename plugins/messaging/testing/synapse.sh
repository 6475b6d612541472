#!/bin/sh
# Builds a Synapse of its own in a folder and starts it on this machine, for `plugins/messaging/test/synapse.test.ts`.
# It needs Python 3.10 or newer and a package index that pip reaches.
#
#   sh plugins/messaging/testing/synapse.sh .synapse
#   SYNAPSE_URL=http://127.0.0.1:8448 npx vitest run plugins/messaging/test/synapse.test.ts
set -eu

folder=${1:?Name the folder: sh plugins/messaging/testing/synapse.sh .synapse}
version=${SYNAPSE_VERSION:-1.163.2}
port=${SYNAPSE_PORT:-8448}

mkdir -p "$folder"
cd "$folder"
[ -x bin/python ] || python3 -m venv .
bin/pip install --quiet "matrix-synapse==$version" || {
  echo "pip finds no matrix-synapse $version: Synapse cannot be built here." >&2
  exit 3
}

secret() { bin/python -c 'import secrets; print(secrets.token_hex(32))'; }
if [ ! -f homeserver.yaml ]; then
  cat > homeserver.yaml <<YAML
server_name: home.test
pid_file: $PWD/synapse.pid
report_stats: false
signing_key_path: $PWD/signing.key
media_store_path: $PWD/media
database: { name: sqlite3, args: { database: $PWD/synapse.db } }
listeners:
  - { port: $port, bind_addresses: ['127.0.0.1'], type: http, resources: [{ names: [client, openid] }] }
registration_shared_secret: $(secret)
macaroon_secret_key: $(secret)
form_secret: $(secret)
trusted_key_servers: []
federation_domain_whitelist: []
presence: { enabled: false }
rc_message: { per_second: 1000, burst_count: 1000 }
rc_login: { address: { per_second: 1000, burst_count: 1000 }, account: { per_second: 1000, burst_count: 1000 } }
rc_invites: { per_room: { per_second: 1000, burst_count: 1000 }, per_user: { per_second: 1000, burst_count: 1000 } }
rc_joins: { local: { per_second: 1000, burst_count: 1000 } }
YAML
  bin/python -m synapse.app.homeserver -c homeserver.yaml --generate-keys
fi
bin/synctl start homeserver.yaml

until bin/python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$port/_matrix/client/versions')" 2>/dev/null; do
  sleep 0.5
done
for name in oracle ann; do
  bin/register_new_matrix_user -c homeserver.yaml -u "$name" -p "$name-password" --no-admin \
    "http://127.0.0.1:$port" > register.log 2>&1 || grep -q 'already taken' register.log
done
echo "Synapse $version listens on http://127.0.0.1:$port. bin/synctl stop homeserver.yaml ends it."
