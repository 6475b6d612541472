import { createInterface } from 'node:readline/promises'
import { parseArgs } from 'node:util'
import { Phone } from './phone.ts'
import { phonePattern } from './request.ts'

// npm run ussd: a phone in the terminal, which sends its inputs to the server that npm start has started.
const { values } = parseArgs({
  options: {
    url: { type: 'string', default: `http://127.0.0.1:${process.env.PORT || 3000}` },
    number: { type: 'string', default: '+254711000111' },
    code: { type: 'string', default: '*384#' },
    help: { type: 'boolean', default: false },
  },
})
const say = (line: string) => void process.stdout.write(`${line}\n`)

if (values.help || !phonePattern.test(values.number)) {
  say('npm run ussd -- [--url http://127.0.0.1:3000] [--number +254711000111] [--code *384#]')
  process.exit(values.help ? 0 : 2)
}

const phone = new Phone(
  values.number,
  async (request) => {
    const response = await fetch(new URL('/api/ussd', values.url), {
      method: 'POST',
      // Telecom gateways send a form, so this phone does too.
      body: new URLSearchParams({ ...request }),
    })
    if (response.ok) return response.text()
    return `END The gateway answered ${response.status}.`
  },
  values.code,
)

/** The answer of the gateway, or undefined when the gateway cannot be reached. */
async function answered(call: Promise<string>): Promise<string | undefined> {
  try {
    return await call
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
    const why = cause instanceof Error ? cause.message || cause.name : String(cause)
    say(`No answer from ${values.url}: ${why}. Is the server running (npm start)?`)
    return undefined
  }
}

const terminal = createInterface({ input: process.stdin, output: process.stdout })
// The iterator exists before the first await, because readline loses lines that come before it.
const lines = terminal[Symbol.asyncIterator]()

say(`${values.number} dials ${values.code}. Type an answer and Enter; Ctrl-D hangs up.`)
let answer = await answered(phone.dial())
if (answer === undefined) process.exitCode = 1
else {
  for (;;) {
    const isOver = answer !== undefined && !answer.startsWith('CON ')
    say(answer === undefined ? 'Enter sends it again.' : `\n${answer.slice(4)}\n`)
    if (isOver) say('The call is over. Enter dials again, Ctrl-D puts the phone away.')
    process.stdout.write('> ')
    const line = await lines.next()
    if (line.done) break
    if (answer === undefined) answer = await answered(phone.again())
    else answer = await answered(isOver ? phone.dial() : phone.type(line.value))
  }
}
terminal.close()
