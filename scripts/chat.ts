import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { createParser } from 'eventsource-parser'
import { createApp, RuntimeError } from '#core'
import { bundled } from '../plugins/index.ts'
import { developmentUser, oracleDid, serverAddress } from './development-user.ts'
import { loadEnvFileIfAny } from './env-file.ts'

// npm run chat ["question"]: talks to the running server as a development user, or, when none runs, carries the
// turns out in this process. Ctrl-C stops the answer; a second one ends the chat.
const question = process.argv.slice(2).join(' ').trim()
const dim = process.stdout.isTTY
  ? (text: string) => `\x1b[2m${text}\x1b[0m`
  : (text: string) => text

/** The server of this folder's environment, or one in this process that nobody else sees. */
async function findServer() {
  const address = serverAddress()
  const answers = await fetch(`${address}/.well-known/oracle.json`).then(
    (response) => response.ok,
    () => false,
  )
  if (answers) return { address, close: async () => {} }
  console.log(dim(`No server answers at ${address}; the turn runs in this process.`))
  const env = { ...loadEnvFileIfAny(), LOG_LEVEL: 'error' }
  const app = await createApp({ plugins: bundled, env })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
  return { address: url, close: () => app.close() }
}

interface Chat {
  /** Sends a message and prints what comes, until the turn is over. */
  say(message: string): Promise<void>
}

async function openChat(address: string): Promise<Chat> {
  const wallet = await developmentUser()
  const did = await oracleDid(address)
  const call = async (path: string, body?: unknown): Promise<Response> => {
    const headers = { ...(await wallet.headers(did)), 'content-type': 'application/json' }
    const response = await fetch(address + path, {
      method: 'POST',
      headers,
      body: JSON.stringify(body ?? {}),
    })
    if (response.ok) return response
    const { message, hint } = (await response.json()) as { message: string; hint?: string }
    throw new Error(`${message} ${hint ?? ''}`.trim())
  }
  const { sessionId } = (await (await call('/sessions')).json()) as { sessionId: string }

  async function follow(response: Response): Promise<void> {
    const printer = new Printer()
    const parser = createParser({
      onEvent: ({ event, data }) => printer.print(event ?? '', JSON.parse(data)),
    })
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) parser.feed(decoder.decode(bytes, { stream: true }))
    printer.finish()
    if (!printer.question) return
    const { runId, toolName, args } = printer.question
    const answer = await ask(`${toolName} ${JSON.stringify(args)}\nAllow it? [y/N] `)
    await follow(
      await call(`/runs/${runId}/resume`, { decision: /^y/i.test(answer) ? 'approve' : 'reject' }),
    )
  }

  return {
    async say(message) {
      const requestId = randomUUID()
      let stops = 0
      const stop = () => {
        if (++stops > 1) process.exit(130)
        console.log(dim('\n(stopping)'))
        void call('/messages/abort', { sessionId, requestId }).catch((error: Error) =>
          console.error(error.message),
        )
      }
      process.on('SIGINT', stop)
      try {
        await follow(await call(`/messages/${sessionId}`, { message, requestId }))
      } finally {
        process.off('SIGINT', stop)
      }
    },
  }
}

async function converse(chat: Chat): Promise<void> {
  console.log(dim('Ask something; an empty line ends the chat.'))
  for (;;) {
    const message = (await ask('\n> ')).trim()
    if (!message) return
    await chat.say(message)
  }
}

async function ask(prompt: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    const ended = new Promise<string>((resolve) => terminal.once('close', () => resolve('')))
    return await Promise.race([terminal.question(prompt), ended])
  } finally {
    terminal.close()
  }
}

/** Prints a turn's events as a person would want to read them. */
class Printer {
  question: { runId: string; toolName: string; args: unknown } | undefined
  #inText = false

  print(event: string, data: Record<string, any>) {
    // any: events have many shapes, and each case reads its own
    if (event === 'message') {
      process.stdout.write(data.content)
      this.#inText = true
    } else if (event === 'tool_call' || event === 'action_call') this.#line(toolLine(data))
    else if (event === 'progress')
      this.#line(
        `  ${data.note ?? 'working'}: ${data.done}${data.total ? ` of ${data.total}` : ''}`,
      )
    else if (event === 'interrupt') this.question = data as Printer['question']
    else if (event === 'error') {
      this.finish()
      console.error(data.error)
      process.exitCode = 1
    } else if (event === 'done' && data.status !== 'finished' && data.status !== 'waiting')
      this.#line(`(${data.status})`)
  }

  finish() {
    if (this.#inText) process.stdout.write('\n')
    this.#inText = false
  }

  #line(text: string) {
    this.finish()
    console.log(dim(text))
  }
}

function toolLine({ status, toolName, args, error }: Record<string, any>): string {
  // any: as above
  if (status === 'isRunning') return `  → ${toolName} ${JSON.stringify(args ?? {})}`
  if (status === 'error')
    return `  ✗ ${toolName}: ${typeof error === 'string' ? error : (error?.message ?? 'failed')}`
  return `  ✓ ${toolName}`
}

try {
  const { address, close } = await findServer()
  const chat = await openChat(address)
  if (question) await chat.say(question)
  else await converse(chat)
  await close()
  process.exit(process.exitCode ?? 0)
} catch (error) {
  console.error(error instanceof RuntimeError || error instanceof Error ? error.message : error)
  process.exit(1)
}
