import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Homeserver } from '../../plugins/messaging/testing/homeserver.ts'
import { Person } from '../../plugins/messaging/testing/person.ts'
import { messagingEnv, oracleId, oraclePassword, waitFor } from './open-oracle.ts'
import { bareEnv, fromSources, root } from './process.ts'

const run = promisify(execFile)
/** Shorter words stand in a log by chance. */
const leastSecret = 12
/** How long a start may take on a loaded machine. */
const startMs = 60_000

/** A server of `messaging-server.ts` in a process of its own, which can be killed and started again. */
export class MessagingProcess {
  readonly name: string
  readonly #env: Readonly<Record<string, string>>
  #child: ChildProcess | undefined
  #printed = ''
  #url = ''

  constructor(name: string, env: Readonly<Record<string, string>>) {
    this.name = name
    this.#env = env
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  get url(): string {
    return this.#url
  }

  get printed(): string {
    return this.#printed
  }

  /** Starts the server, and waits until it says that it is at work. */
  async start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.listening(more)
    await waitFor(async () => (await fetch(`${this.#url}/messaging`)).status === 200, startMs)
  }

  /** Starts the server, and waits until it listens; resolves to the milliseconds until its first 200. */
  async listening(more: Readonly<Record<string, string>> = {}): Promise<number> {
    const began = performance.now()
    const before = this.#printed.length
    const child = spawn(
      process.execPath,
      [...fromSources, resolve(root, 'test/support/messaging-server.ts')],
      { cwd: root, env: { ...this.#env, ...more }, stdio: ['pipe', 'pipe', 'pipe'] },
    )
    this.#child = child
    child.stdin.on('error', () => undefined)
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (this.#printed += chunk))
    const urlNow = () => /listening on (http:\/\/[\w.:]+)/.exec(this.#printed.slice(before))?.[1]
    await waitFor(async () => {
      if (child.exitCode !== null)
        throw new Error(`${this.name} ended: ${this.#printed.slice(before)}`)
      this.#url = urlNow() ?? ''
      return this.#url !== '' && (await fetch(`${this.#url}/livez`)).status === 200
    }, startMs)
    return performance.now() - began
  }

  /** Has the process end itself when it comes to this moment the next time. */
  async endAt(moment: string): Promise<void> {
    const before = this.#printed.length
    this.#child?.stdin?.write(`${moment}\n`)
    await waitFor(async () => this.#printed.slice(before).includes(`armed: ${moment}`))
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Resolves to the signal, or to the code, with which the process has ended. */
  async ended(): Promise<NodeJS.Signals | number | null> {
    const child = this.#child
    if (!child) return null
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    return child.signalCode ?? child.exitCode
  }

  get hasEnded(): boolean {
    return !this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.ended()
  }
}

/** A messaging server in this process, and oracles in processes of their own. */
export class MessagingScene {
  readonly server: Homeserver
  readonly folder: string
  readonly #databaseUrl: string | undefined
  readonly #processes: MessagingProcess[] = []
  readonly #people: Person[] = []

  private constructor(server: Homeserver, folder: string, databaseUrl: string | undefined) {
    this.server = server
    this.folder = folder
    this.#databaseUrl = databaseUrl
  }

  static async open(databaseUrl?: string): Promise<MessagingScene> {
    const server = await Homeserver.open()
    server.register('oracle', oraclePassword)
    return new MessagingScene(server, await mkdtemp(join(tmpdir(), 'messaging-')), databaseUrl)
  }

  /** A server that is not started yet. */
  oracle(name = 'oracle'): MessagingProcess {
    const made = new MessagingProcess(name, this.#envOf(name))
    this.#processes.push(made)
    return made
  }

  /** What a script prints that has the variables of an oracle. */
  async printedBy(script: string, ...args: string[]): Promise<string> {
    const program = [...fromSources, resolve(root, script), ...args]
    const { stdout } = await run(process.execPath, program, {
      cwd: root,
      env: this.#envOf('script'),
    })
    return stdout
  }

  #envOf(name: string): Record<string, string> {
    return {
      ...bareEnv(),
      NODE_ENV: 'test',
      PORT: '0',
      LOG_LEVEL: 'info',
      ...messagingEnv(this.server.url),
      RUN_LEASE_MS: '3000',
      TURNS_AT_ONCE: '100',
      NAME: name,
      DOORS: this.#doors,
      DATA_DIR: this.folder,
      ...(this.#databaseUrl !== undefined && { DATABASE_URL: this.#databaseUrl }),
    }
  }

  /** What the oracles' tool has done. */
  doors(): string[] {
    try {
      return readFileSync(this.#doors, 'utf8').trim().split('\n')
    } catch {
      return []
    }
  }

  async person(name: string): Promise<Person> {
    this.server.register(name)
    const person = await Person.open(this.server.url, `@${name}:home.test`, `${name}-password`)
    this.#people.push(person)
    return person
  }

  async directRoom(person: Person, encrypted = true): Promise<string> {
    const room = await person.createRoom({ invite: [oracleId], encrypted, direct: true })
    await waitFor(async () => this.server.room(room).membership(oracleId) === 'join')
    await person.hasMember(room, oracleId)
    return room
  }

  /** The words of the oracle's messages in a room, as this person reads them now. */
  said(person: Person, room: string): string[] {
    return person
      .seen(room)
      .filter(({ sender }) => sender === oracleId)
      .map(({ body }) => body)
  }

  async close(): Promise<void> {
    for (const one of this.#processes) await one.kill()
    const printed = this.#processes.map((one) => one.printed).join('\n')
    const sentences = this.#people.flatMap((person) => person.sentences)
    for (const secret of [oraclePassword, ...this.server.accounts.tokensOf(oracleId), ...sentences])
      if (secret.length >= leastSecret && printed.includes(secret))
        throw new Error(`The log has "${secret.slice(0, 100)}".`)
    for (const person of this.#people) await person.close()
    await this.server.stop()
    await rm(this.folder, { recursive: true, force: true })
  }

  get #doors(): string {
    return join(this.folder, 'doors.txt')
  }
}
