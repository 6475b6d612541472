import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { createParser } from 'eventsource-parser'
import { appOfFolder } from '../app-of-folder.ts'
import type { Command } from '../command.ts'
import { developmentUser, oracleDid, serverAddress } from '../development-user.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { table } from '../table.ts'

/**
 * Talks to the running server as a development user, or, when no server runs, carries the turns out in this process.
 * Ctrl-C stops the answer; a second Ctrl-C ends the chat. When the connection breaks, the program looks for the server
 * for a minute and prints the rest of the answer.
 */
export const command: Command = {
  usage: 'chat [--list] [--session <id>] ["question"]',
  example: 'oracle-runtime chat "What is the weather in Lusaka?"',
  notes:
    '  --list          prints your conversations, the newest first\n  --session <id>  goes on with one of them',
  options: { list: { type: 'boolean' }, session: { type: 'string' } },
  mostPositionals: 10_000,
  async run({ positionals, text, has }) {
    const question = positionals.join(' ').trim()
    const { address, close } = await findServer()
    try {
      const chat = await openChat(address, text('session'))
      if (has('list')) await chat.list()
      else if (question) await chat.say(question)
      else await converse(chat)
    } finally {
      await close()
    }
    return Number(process.exitCode ?? 0)
  },
}

/** How long the program looks for a server that has gone away. */
const patienceMs = 60_000
const dim = process.stdout.isTTY
  ? (text: string) => `\x1b[2m${text}\x1b[0m`
  : (text: string) => text

/** The server of this folder's environment, or else a new server in this process on a free port. */
async function findServer() {
  const address = serverAddress()
  const answers = await fetch(`${address}/.well-known/oracle.json`).then(
    (response) => response.ok,
    () => false,
  )
  if (answers) return { address, close: async () => {} }
  console.log(dim(`No server answers at ${address}; the turn runs in this process.`))
  const env = { ...loadEnvFileIfAny(), LOG_LEVEL: 'error' }
  const app = await (await appOfFolder()).create({ env })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
  return { address: url, close: () => app.close() }
}

/** How many conversations a list has. */
const mostListed = 50

interface Listed {
  readonly sessions: readonly { sessionId: string; title?: string; lastUpdatedAt: string }[]
  readonly total: number
}

interface Chat {
  /** Prints the conversations of the user, the newest first. */
  list(): Promise<void>
  /** The conversation, once something was said in it. */
  readonly sessionId: string | undefined
  /** Sends a message and prints the events of its turn, until the turn is over. */
  say(message: string): Promise<void>
}

/** Begins a conversation with the first words, or goes on with one of the user's. */
async function openChat(address: string, given: string | undefined): Promise<Chat> {
  const wallet = await developmentUser()
  const did = await oracleDid(address)
  const request = async (path: string, init: RequestInit): Promise<Response> => {
    const headers = { ...(await wallet.headers(did)), 'content-type': 'application/json' }
    const response = await fetch(address + path, { ...init, headers }).catch(() => {
      throw new Error(`No server answers at ${address} any more. Start it again, and ask again.`)
    })
    if (response.ok) return response
    const { message, hint } = (await response.json()) as { message: string; hint?: string }
    throw new Refused(`${message} ${hint ?? ''}`.trim())
  }
  const call = (path: string, body?: unknown) =>
    request(path, { method: 'POST', body: JSON.stringify(body ?? {}) })
  let sessionId = given
  // A conversation that does not exist is refused before anything is asked.
  if (given !== undefined)
    await request(`/sessions/${encodeURIComponent(given)}/run`, { method: 'GET' })
  const begun = async (): Promise<string> => {
    if (sessionId !== undefined) return sessionId
    const made = (await (await call('/sessions')).json()) as { sessionId: string }
    return (sessionId = made.sessionId)
  }

  async function follow(response: Response): Promise<void> {
    const printer = new Printer()
    const runId = response.headers.get('x-run-id')
    let last = '0'
    const read = async ({ body }: Response) => {
      const parser = createParser({
        onEvent({ id, event, data }) {
          last = id ?? last
          printer.print(event ?? '', JSON.parse(data))
        },
      })
      const decoder = new TextDecoder()
      for await (const bytes of body!) parser.feed(decoder.decode(bytes, { stream: true }))
    }
    await read(response).catch(() => {}) // the connection broke
    for (const lostAt = Date.now(); !printer.isOver; await sleep(500)) {
      if (Date.now() - lostAt > patienceMs)
        throw new Error(`The server is gone. When it is back, the answer is in the conversation.`)
      printer.note('(connection lost; looking for the server)')
      await request(`/runs/${runId}?after=${last}`, { method: 'GET' })
        .then(read)
        .catch((error: unknown) => {
          if (error instanceof Refused) throw error
        })
    }
    printer.finish()
    if (!printer.question) return
    const { runId: waiting, toolName, args, reason } = printer.question
    if (reason) console.log(reason)
    const answer = await ask(`${toolName} ${JSON.stringify(args)}\nAllow it? [y/N] `)
    await follow(
      await call(`/runs/${waiting}/resume`, {
        decision: /^y/i.test(answer) ? 'approve' : 'reject',
      }),
    )
  }

  return {
    get sessionId() {
      return sessionId
    },
    async list() {
      const listed = await request(`/sessions?limit=${mostListed}`, { method: 'GET' })
      const { sessions, total } = (await listed.json()) as Listed
      const rows = sessions.map(({ sessionId: id, lastUpdatedAt, title = '' }) => [
        id,
        lastUpdatedAt.slice(0, 16).replace('T', ' '),
        title.slice(0, 60),
      ])
      if (rows.length > 0) console.log(table(['session', 'last used', 'title'], rows))
      else console.log('There are no conversations yet.')
      if (total > rows.length) console.log(dim(`${total - rows.length} older ones are not shown.`))
    },
    async say(message) {
      const id = await begun()
      const requestId = randomUUID()
      let stops = 0
      const stop = () => {
        if (++stops > 1) process.exit(130)
        console.log(dim('\n(stopping)'))
        void call('/messages/abort', { sessionId: id, requestId }).catch((error: Error) =>
          console.error(error.message),
        )
      }
      process.on('SIGINT', stop)
      try {
        await follow(await call(`/messages/${id}`, { message, requestId, approvals: true }))
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
    if (!message) break
    await chat.say(message)
  }
  if (chat.sessionId !== undefined)
    console.log(dim(`To go on: oracle-runtime chat --session ${chat.sessionId}`))
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

/** The error for a request that the server refused, which a retry would not change. */
class Refused extends Error {}

/** Prints a turn's events for a person. */
class Printer {
  question: { runId: string; toolName: string; args: unknown; reason?: string } | undefined
  isOver = false
  /** The text of the answer so far; `#shown` is the printed part. After a restart the server sends a part of the text again. */
  #text = ''
  #shown = ''
  #noted = ''
  #inText = false

  print(event: string, data: Record<string, any>) {
    // any: events have many shapes, and each case reads its own
    this.#noted = ''
    if (event === 'message') this.#say(data.content)
    else if (event === 'run' && data.resumed) this.#text = this.#text.slice(0, data.partialLength)
    else if (event === 'tool_call' || event === 'action_call') this.#line(toolLine(data))
    else if (event === 'progress')
      this.#line(
        `  ${data.note ?? 'working'}: ${data.done}${data.total ? ` of ${data.total}` : ''}`,
      )
    else if (event === 'interrupt') this.question = data as Printer['question']
    else if (event === 'error') {
      this.finish()
      console.error(data.error)
      process.exitCode = 1
    } else if (event === 'done') {
      this.isOver = true
      if (data.status !== 'finished' && data.status !== 'waiting') this.#line(`(${data.status})`)
    }
  }

  /** Prints a remark of this program, but not the same remark twice without an event in between. */
  note(text: string) {
    if (this.#noted !== text) this.#line(text)
    this.#noted = text
  }

  finish() {
    if (this.#inText) process.stdout.write('\n')
    this.#inText = false
  }

  #say(content: string) {
    this.#text += content
    if (this.#shown.startsWith(this.#text)) return
    // After a restart the model may answer differently; then the printer prints the whole new answer.
    const goesOn = this.#text.startsWith(this.#shown)
    if (!goesOn) this.finish()
    process.stdout.write(goesOn ? this.#text.slice(this.#shown.length) : this.#text)
    this.#shown = this.#text
    this.#inText = true
  }

  #line(text: string) {
    this.finish()
    console.log(dim(text))
  }
}

function toolLine({ status, toolName, args, error }: Record<string, any>): string {
  // any: as in `print`
  if (status === 'isRunning') return `  → ${toolName} ${JSON.stringify(args ?? {})}`
  if (status === 'error')
    return `  ✗ ${toolName}: ${typeof error === 'string' ? error : (error?.message ?? 'failed')}`
  return `  ✓ ${toolName}`
}
