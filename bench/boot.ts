import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

// Measures the time from the start of the process to its first 200, beside a bare Koa server that is started the same way.
const root = resolve(import.meta.dirname, '..')
const rounds = 9

const bareKoa = `
  import Koa from 'koa'
  const app = new Koa()
  app.use((ctx) => { ctx.body = { status: 'ok' } })
  const server = app.listen(0, '127.0.0.1', () => console.log('listening on http://127.0.0.1:' + server.address().port))
`

async function startToFirst200(args: string[], env: Record<string, string>): Promise<number> {
  const from = performance.now()
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const url = await new Promise<string>((resolve, reject) => {
      let output = ''
      child.stdout.on('data', (chunk) => {
        output += chunk
        const at = /listening on (http:\/\/[\d.:]+)/.exec(output)?.[1]
        if (at) resolve(at)
      })
      child.once('exit', () => reject(new Error(output)))
    })
    const response = await fetch(url)
    if (response.status !== 200) throw new Error(`status ${response.status}`)
    return performance.now() - from
  } finally {
    child.kill('SIGKILL')
    await new Promise((resolve) => child.once('exit', resolve))
  }
}

const data = mkdtempSync(join(tmpdir(), 'oracle-bench-'))
const ours = () =>
  startToFirst200(
    ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source', 'start.js'],
    { PORT: '0', DATA_DIR: data },
  )
const koa = () => startToFirst200(['--input-type=module', '-e', bareKoa], {})
await ours() // creates the folder, its keys and tables
await koa()
const times = { ours: [] as number[], koa: [] as number[] }
for (let i = 0; i < rounds; i++) {
  times.ours.push(await ours())
  times.koa.push(await koa())
}
rmSync(data, { recursive: true, force: true })

const median = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!
const ratios = times.ours.map((time, i) => time / times.koa[i]!)
console.log(
  `start to first 200, every plugin: ${median(times.ours).toFixed(0)} ms; bare Koa: ` +
    `${median(times.koa).toFixed(0)} ms; ratio ${median(ratios).toFixed(2)} (goal: at most 4)`,
)
