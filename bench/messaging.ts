import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Person } from '../plugins/messaging/testing/person.ts'
import { median } from './support/target.ts'
import { type MessagingProcess, MessagingScene } from '../test/support/messaging-process.ts'
import { waitFor } from '../test/support/open-oracle.ts'

// npm run bench:messaging -- 10 1000: what a messenger costs a server at its start, and at so many encrypted rooms.
const sizes = process.argv.slice(2).map(Number)
const atOnce = 20
const startsEach = 9
const patienceMs = 60_000
const ticksPerS = 100
/** One person says all of it, who has fewer turns a day otherwise. */
const env = { TURNS_PER_DAY: '1000000', MESSAGING_MAX_ROOMS: '10000' }

const say = (line: string) => void process.stdout.write(`${line}\n`)
const residentMb = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
const cpuMs = (pid: number) => {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / ticksPerS
}

async function keysOf(folder: string): Promise<{ rows: number; bytes: number }> {
  const [file = ''] = (await readdir(folder)).filter((name) => /\.(?:db|sqlite)$/.test(name))
  const db = new DatabaseSync(join(folder, file), { readOnly: true })
  const query =
    'select count(*) as n, sum(length(value) + length(key)) as bytes from messaging_keys'
  const { n, bytes } = db.prepare(query).get() ?? {}
  db.close()
  return { rows: Number(n), bytes: Number(bytes) }
}

async function startMs(oracle: MessagingProcess): Promise<number> {
  const began = performance.now()
  await oracle.start(env)
  return Math.round(performance.now() - began)
}

/** Says something in every one of these rooms, and waits until each has its answer. */
async function talk(scene: MessagingScene, ann: Person, rooms: readonly string[]): Promise<void> {
  for (const room of rooms) await ann.say(room, `question ${randomUUID().slice(0, 8)}`)
  const isAnswered = (room: string) => {
    const said = scene.said(ann, room)
    // A sentence that is no answer, such as a limit: no patience mends that.
    const other = said.find((body) => !body.startsWith('word'))
    if (other !== undefined) throw new Error(`The oracle says: ${other}`)
    return said.some((body) => body.includes('that was question'))
  }
  await waitFor(async () => rooms.every(isAnswered), patienceMs)
}

const makeRooms = (scene: MessagingScene, ann: Person, count: number) =>
  Promise.all(Array.from({ length: count }, () => scene.directRoom(ann)))

async function measure(scene: MessagingScene, size: number): Promise<void> {
  const oracle = scene.oracle()
  await oracle.start(env)
  const ann = await scene.person('ann')
  // What the first message alone costs, such as loading the agent, is no part of the figure.
  await talk(scene, ann, await makeRooms(scene, ann, 1))
  const before = cpuMs(oracle.pid)
  for (let made = 0; made < size; made += atOnce)
    await talk(scene, ann, await makeRooms(scene, ann, Math.min(atOnce, size - made)))
  const cpu = (cpuMs(oracle.pid) - before) / size
  const resident = residentMb(oracle.pid)
  await oracle.kill()
  const { rows, bytes } = await keysOf(scene.folder)
  const ms = await startMs(oracle)
  const columns = [size, resident.toFixed(0), ms, rows, (bytes / 1024).toFixed(0), cpu.toFixed(0)]
  say(columns.join('  '))
}

/** The milliseconds from the start to the first 200, with the account configured and without, in turns. */
async function starts(): Promise<void> {
  const scene = await MessagingScene.open()
  const oracle = scene.oracle()
  const taken = { on: new Array<number>(), off: new Array<number>() }
  try {
    // The first of each makes tables and the device.
    for (let n = 0; n <= startsEach; n++)
      for (const is of ['on', 'off'] as const) {
        const ms = await oracle.listening({ FEATURES: `messaging=${is}` })
        if (n > 0) taken[is].push(ms)
        await oracle.kill()
      }
  } finally {
    await scene.close()
  }
  const [on, off] = [median(taken.on), median(taken.off)].map((ms) => ms.toFixed(0))
  say(`start to first 200: ${on} ms with the account configured, ${off} ms without`)
}

await starts()
say('rooms  resident MB  boot to loaded ms  rows of keys  KB of keys  CPU ms a message')
for (const size of sizes.length > 0 ? sizes : [10, 1000]) {
  const scene = await MessagingScene.open()
  try {
    await measure(scene, size)
  } finally {
    // Without that a failure leaves a process behind, and this one never ends.
    await scene.close()
  }
}
