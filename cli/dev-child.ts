import { appOfFolder } from './app-of-folder.ts'
import { loadEnvFileIfAny } from './env-file.ts'

// The server of `oracle-runtime dev`: it listens where only the process that holds the port finds it. What clients are told,
// and what counts as a page of its own, is the address of that port.
if (!loadEnvFileIfAny().PUBLIC_URL) process.env.PUBLIC_URL = process.argv[2]
const app = await appOfFolder()
const address = await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.({ port: address.port })

// Whoever started this process is gone, however it died: nobody else would end this one.
process.on('disconnect', () => {
  setTimeout(() => process.exit(1), 2_000).unref()
  process.kill(process.pid, 'SIGTERM')
})
