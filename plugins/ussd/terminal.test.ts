import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freshDatabase } from '../../test/support/database.ts'
import { startServer } from '../../test/support/process.ts'
import { describeWith } from '../../test/support/services.ts'

const fixed = {
  USSD_RATE_LIMIT_PER_MINUTE: '1000000',
  // These tests do not test slow screens, so the budget is long enough for a busy machine.
  USSD_REPLY_BUDGET_MS: '15000',
  ORACLE_MNEMONIC: 'one oracle on several servers',
  PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

/** Starts the server of `npm start`, with its clock ahead by some time. */
async function server(env: Record<string, string>, aheadMs = 0) {
  const clock = `const now = Date.now; Date.now = () => now() + ${aheadMs}`
  const started = startServer('server.ts', {
    ...fixed,
    DATA_DIR: folder(),
    ...env,
    NODE_OPTIONS: `--import="data:text/javascript,${encodeURIComponent(clock)}"`,
  })
  onTestFinished(async () => {
    if (started.child.exitCode === null) await started.end('SIGKILL')
  })
  return { url: await started.url, stop: () => started.end() }
}

/** A proxy with one address in front of changing servers, like a load balancer. */
async function balancer() {
  let target = 0
  const open = new Set<Socket>()
  const front = createServer((near) => {
    const far = connect(target, '127.0.0.1')
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from)
      from.pipe(into)
      from.on('error', () => into.destroy())
      from.on('close', () => (open.delete(from), into.destroy()))
    }
  }).listen(0, '127.0.0.1')
  await once(front, 'listening')
  const cut = () => open.forEach((socket) => socket.destroy())
  onTestFinished(() => (cut(), void front.close()))
  return {
    url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    turnTo(url: string) {
      target = Number(new URL(url).port)
      cut()
    },
  }
}

/** Runs `npm run ussd` in a process of its own. */
function terminal(url: string, number = '+254711000111') {
  const child = spawn(process.execPath, [
    '--conditions=oracle-runtime-source',
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, 'cli.ts'),
    ...['--url', url, '--number', number],
  ])
  onTestFinished(() => void child.kill())
  let output = ''
  let seen = 0
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  /** Waits for the next prompt, and resolves to the text before it. */
  const shown = async () => {
    await expect.poll(() => output.indexOf('> ', seen), { timeout: 15_000 }).toBeGreaterThan(-1)
    const end = output.indexOf('> ', seen)
    const screen = output.slice(seen, end).trim()
    seen = end + 2
    return screen
  }
  const type = async (...inputs: string[]) => {
    let screen = ''
    for (const input of inputs) {
      child.stdin.write(`${input}\n`)
      screen = await shown()
    }
    return screen
  }
  return {
    shown,
    type,
    async hangUp() {
      child.stdin.end()
      return (await once(child, 'exit'))[0] as number
    },
  }
}

const customerOf = (screen: string) => /customer number is (\d{9})/.exec(screen)?.[1] ?? screen
const logIn = async (phone: ReturnType<typeof terminal>, customer: string, pin: string) => {
  await phone.type('2', '2', customer)
  const screen = await phone.type(pin)
  await phone.type('0', '0', '0')
  return screen
}

const suite = (place: () => Promise<Record<string, string>>) => {
  it('creates an account, refuses weak and wrong PINs, locks, and opens again after 15 minutes', async () => {
    const env = await place()
    const front = await balancer()
    const first = await server(env)
    front.turnTo(first.url)
    const phone = terminal(front.url)
    expect(await phone.shown()).toMatch(/^\+254711000111 dials \*384#\.[^]*Welcome to the oracle/)
    expect(await phone.type('2', '1', 'Amina Wanjiru', 'amina@example.org')).toMatch(/Choose a PIN/)
    for (const [pin, reason] of [
      ['55555', 'all digits are the same'],
      ['12345', 'in a row'],
      ['00111', 'your number ends with it'],
      ['4821', 'A PIN is 5 digits'],
    ] as const)
      expect(await phone.type(pin)).toContain(reason)
    expect(await phone.type('48213', '48214')).toContain('The two PINs differ')
    const customer = customerOf(await phone.type('48213'))
    expect(customer).toMatch(/^\d{9}$/)
    expect(await phone.type('0')).toMatch(/^Welcome to the oracle/)
    expect(await logIn(phone, customer, '48213')).toMatch(/^Welcome back, Amina Wanjiru\./)

    const calls = terminal(front.url)
    await calls.shown()
    await calls.type('2', '2', customer)
    for (let tries = 0; tries < 5; tries++)
      expect(await calls.type('77031')).toMatch(/^The customer number or the PIN is wrong/)
    expect(await calls.type('48213')).toMatch(/^Too many wrong PINs. Try again in 15 minutes\./)

    // The lock stays after a restart, and ends after a quarter of an hour.
    await first.stop()
    const early = await server(env, 14 * 60_000)
    front.turnTo(early.url)
    const patient = terminal(front.url)
    await patient.shown()
    expect(await logIn(patient, customer, '48213')).toMatch(/^Too many wrong PINs/)
    await early.stop()
    const late = await server(env, 15 * 60_000 + 5000)
    front.turnTo(late.url)
    const rested = terminal(front.url)
    await rested.shown()
    expect(await logIn(rested, customer, '48213')).toMatch(/^Welcome back, Amina/)
    expect(await rested.type('*')).toContain('The call is over. Enter dials again')
    expect(await rested.type('')).toMatch(/^Welcome to the oracle/)
    expect(await rested.hangUp()).toBe(0)
  }, 60_000)

  it('goes on in the middle of a call when the server was restarted', async () => {
    const env = await place()
    const front = await balancer()
    const first = await server(env)
    front.turnTo(first.url)
    const phone = terminal(front.url)
    await phone.shown()
    expect(await phone.type('2', '1', 'Amina')).toMatch(/^Your e-mail address/)
    await first.stop()
    expect(await phone.type('1')).toMatch(/^No answer from .*\nEnter sends it again\.$/)
    front.turnTo((await server(env)).url)
    expect(await phone.type('')).toMatch(/^Choose a PIN/)
    expect(await phone.type('48213', '48213')).toMatch(/^Your account is ready/)
  }, 60_000)
}

describe('a phone in the terminal, on SQLite', () =>
  suite(async () => ({ DATA_DIR: join(folder(), 'data') })))

await describeWith('postgres', 'a phone in the terminal, on PostgreSQL', (url) => {
  const fresh = async () => {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    return { DATABASE_URL: database.url }
  }
  suite(fresh)

  it('is served by another replica from one input to the next', async () => {
    const env = await fresh()
    const front = await balancer()
    const [one, two] = await Promise.all([server(env), server(env)])
    front.turnTo(one.url)
    const phone = terminal(front.url)
    await phone.shown()
    const way: [string, RegExp][] = [
      ['2', /^Your account/],
      ['1', /^Your name/],
      ['Amina', /^Your e-mail/],
      ['1', /^Choose a PIN/],
      ['48213', /^Type the PIN once more/],
      ['48213', /^Your account is ready/],
      ['0', /^Welcome to the oracle/],
    ]
    for (const [index, [input, screen]] of way.entries()) {
      front.turnTo([two.url, one.url][index % 2]!)
      expect(await phone.type(input)).toMatch(screen)
    }
  }, 60_000)
})

it('a script of answers is typed line by line', async () => {
  const { url } = await server({})
  const child = spawn(process.execPath, [
    '--conditions=oracle-runtime-source',
    join(import.meta.dirname, 'cli.ts'),
    ...['--url', url],
  ])
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stdin.end('2\n1\nAmina\n0\n')
  expect((await once(child, 'exit'))[0]).toBe(0)
  expect(output.match(/Your account|Your name|Your e-mail/g)).toEqual([
    'Your account',
    'Your name',
    'Your e-mail',
    'Your name',
  ])
})

it('a phone that reaches no server says where it looked, and how to use it', async () => {
  const child = spawn(process.execPath, [
    '--conditions=oracle-runtime-source',
    join(import.meta.dirname, 'cli.ts'),
    ...['--url', 'http://127.0.0.1:9'],
  ])
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  expect((await once(child, 'exit'))[0]).toBe(1)
  expect(output).toContain('No answer from http://127.0.0.1:9')
  expect(output).toContain('npm start')
})
