import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type MessagingProcess, MessagingScene } from '../test/support/messaging-process.ts'
import { waitFor } from '../test/support/open-oracle.ts'

// npm run bench:messaging -- 10 1000: what rooms of messengers cost a server, at so many encrypted rooms.
const sizes = process.argv.slice(2).map(Number)
const atOnce = 20
const patienceMs = 600_000
const ticksPerS = 100

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
  await oracle.start()
  return Math.round(performance.now() - began)
}

say('rooms  resident MB  boot to loaded ms  rows of keys  KB of keys  CPU ms a message')
for (const size of sizes.length > 0 ? sizes : [10, 1000]) {
  const scene = await MessagingScene.open()
  const oracle = scene.oracle()
  await oracle.start()
  const ann = await scene.person('ann')
  const rooms: string[] = []
  const before = cpuMs(oracle.pid)
  while (rooms.length < size) {
    const more = Array.from({ length: Math.min(atOnce, size - rooms.length) }, () =>
      scene.directRoom(ann),
    )
    const made = await Promise.all(more)
    for (const room of made) await ann.say(room, `question ${rooms.push(room)}`)
    const isAnswered = (room: string) =>
      scene.said(ann, room).some((body) => body.includes('that was question'))
    await waitFor(async () => made.every(isAnswered), patienceMs)
  }
  const cpu = (cpuMs(oracle.pid) - before) / size
  const resident = residentMb(oracle.pid)
  await oracle.kill()
  const { rows, bytes } = await keysOf(scene.folder)
  const ms = await startMs(oracle)
  const columns = [size, resident.toFixed(0), ms, rows, (bytes / 1024).toFixed(0), cpu.toFixed(0)]
  say(columns.join('  '))
  await scene.close()
}
