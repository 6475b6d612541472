import { join } from 'node:path'
import { createServer } from 'vite'

// npm run example:react: a server, unless one answers at its address already, and the example's page, which the browser opens.
const usual = `http://127.0.0.1:${process.env.PORT ?? 3000}`
const isThere = await fetch(`${usual}/.well-known/oracle.json`).then(
  ({ ok }) => ok,
  () => false,
)
const url = isThere ? usual : (await (await import('../server.ts')).default.listen()).url
const page = await createServer({
  root: join(import.meta.dirname, '../examples/react-chat'),
  server: { open: `/?oracle=${url}` },
})
await page.listen()
console.log(`  The example: ${page.resolvedUrls?.local[0]}?oracle=${url}\n`)
