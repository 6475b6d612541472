import { parseArgs } from 'node:util'
import { z } from 'zod'
import { tries } from './tries.ts'

// npm run connect: what to paste into clients of other protocols, and whether each of them gets an answer.
const say = (line: string) => void process.stdout.write(`${line}\n`)
const usage = `npm run connect              what to paste into clients of other protocols
npm run connect -- --try     asks the running server once by each protocol

--url  the address of the server, by default http://127.0.0.1:3000
--key  a personal key, by default ORACLE_KEY; npm run key makes one`

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    try: { type: 'boolean', default: false },
    url: { type: 'string', default: `http://127.0.0.1:${process.env.PORT || 3000}` },
    key: { type: 'string', default: process.env.ORACLE_KEY ?? '' },
  },
})

const listed = z.object({
  doors: z.array(z.object({ name: z.string(), title: z.string(), lines: z.string() })),
})

try {
  process.exitCode = await run()
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}

async function run(): Promise<number> {
  if (values.help) return (say(usage), 0)
  const url = values.url.replace(/\/$/u, '')
  const { doors } = listed.parse(await doorsOf(url))
  if (!values.try) {
    for (const { title, lines } of doors) say(`${title}\n${lines.replace(/^/gmu, '  ')}\n`)
    say('A key in place of ok_…: npm run key. More clients: docs/connect.md.')
    return 0
  }
  if (values.key === '') {
    say('A try needs a personal key: npm run key makes one; pass it by --key or ORACLE_KEY.')
    return 2
  }
  let failed = 0
  for (const { name } of doors) {
    try {
      const words = await tries[name]?.({ url, key: values.key })
      say(`${name}: ${words ? words.replaceAll(/\s+/gu, ' ').slice(0, 120) : 'no words'}`)
      if (!words) failed++
    } catch (error) {
      failed++
      say(`${name}: failed, ${error instanceof Error ? error.message : error}`)
    }
  }
  return failed === 0 ? 0 : 1
}

async function doorsOf(url: string): Promise<unknown> {
  let answer: Response
  try {
    answer = await fetch(`${url}/connect`, { signal: AbortSignal.timeout(10_000) })
  } catch {
    throw new Error(`No server answers at ${url}. npm start starts one; --url names another.`)
  }
  if (answer.status === 404)
    throw new Error(`The server at ${url} has no plugin connect, which is left out in production.`)
  return answer.json()
}
