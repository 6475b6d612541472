import { developmentUser, oracleDid, serverAddress } from './development-user.ts'

// npm run token: prints the headers with which a development user calls, as a config of curl:
//   npm run -s token | curl -K - http://127.0.0.1:3000/user-preferences
// With --json, it prints the DID and the headers as an object.
try {
  const wallet = await developmentUser()
  const headers = await wallet.headers(await oracleDid(serverAddress()))
  if (process.argv.includes('--json'))
    console.log(JSON.stringify({ did: wallet.did, headers }, null, 2))
  else {
    console.log(`# ${wallet.did}, for five minutes`)
    for (const [name, value] of Object.entries(headers)) console.log(`header = "${name}: ${value}"`)
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}
