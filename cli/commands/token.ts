import type { Command } from '../command.ts'
import { developmentUser, oracleDid, serverAddress } from '../development-user.ts'

/** Prints the headers with which a development user calls, as a config of curl or as JSON. */
export const command: Command = {
  usage: 'token [--json]',
  example: 'oracle-runtime token | curl -K - http://127.0.0.1:3000/user-preferences',
  notes:
    'The headers hold for five minutes, at the server of PUBLIC_URL or of PORT on this machine.',
  options: { json: { type: 'boolean' } },
  async run(words) {
    const wallet = await developmentUser()
    const headers = await wallet.headers(await oracleDid(serverAddress()))
    if (words.has('json')) {
      console.log(JSON.stringify({ did: wallet.did, headers }, null, 2))
      return
    }
    console.log(`# ${wallet.did}, for five minutes`)
    for (const [name, value] of Object.entries(headers)) console.log(`header = "${name}: ${value}"`)
  },
}
