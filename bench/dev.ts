import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from './support/target.ts'

/**
 * Measures with the app of `init` how long `dev` takes from a save to the first answer of the new code, beside a bare start of
 * the same app to its first 200. Saves and starts alternate. The app has the package as npm would install it, so the package is
 * packed first.
 */
const rounds = Number(process.argv[2] ?? 15)
const root = resolve(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'bench-dev-'))
const app = join(folder, 'my-oracle')
const { PATH, HOME } = process.env

const quiet = { stdio: ['ignore', 'pipe', 'ignore'] as ['ignore', 'pipe', 'ignore'] }
const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', folder], {
  cwd: root,
  ...quiet,
})
const [{ filename }] = JSON.parse(String(packed)) as [{ filename: string }]
execFileSync('tar', ['-xzf', join(folder, filename), '-C', folder])
const bin = join(folder, 'package/cli/bin.js')
// What the package needs is that of the checkout.
symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
execFileSync(process.execPath, [bin, 'init', 'my-oracle'], { cwd: folder, env: { PATH, HOME } })
mkdirSync(join(app, 'node_modules'))
cpSync(join(folder, 'package'), join(app, 'node_modules/oracle-runtime'), { recursive: true })
const server = readFileSync(join(app, 'server.ts'), 'utf8')

/** The app with a route that tells which save it is of. */
const saved = (nth: number) =>
  server.replace(
    /defineApp\(\{\s*plugins: \[/,
    (found) =>
      `${found}definePlugin({ name: 'nth', summary: 'Tells the save.', routes: { 'GET /nth': ` +
      `{ auth: 'public', run: () => ({ nth: ${nth} }) } } }), `,
  )
if (saved(1) === server) throw new Error('The app of init has no list of plugins any more.')

async function until(
  url: string,
  child: ChildProcess,
  isThere: (text: string) => boolean,
): Promise<void> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`The server of ${url} ended.`)
    const answer = await fetch(url).catch(() => undefined)
    if (answer?.status === 200 && isThere(await answer.text())) return
    await sleep(2)
  }
}

function run(args: string[], env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, args, {
    cwd: app,
    env: { PATH, HOME, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

const bareAt = 'http://127.0.0.1:38917'
async function bareStart(): Promise<number> {
  const began = performance.now()
  const child = run(['server.ts'], {
    PORT: '38917',
    DATA_DIR: join(folder, 'bare'),
  })
  await until(`${bareAt}/nth`, child, () => true)
  const took = performance.now() - began
  child.kill('SIGTERM')
  await once(child, 'exit')
  return took
}

writeFileSync(join(app, 'server.ts'), saved(0))
const dev = run([bin, 'dev'], { PORT: '38918' })
try {
  const url = 'http://127.0.0.1:38918/nth'
  await until(url, dev, () => true)
  await bareStart()
  const times = { dev: [] as number[], bare: [] as number[] }
  for (let round = 1; round <= rounds; round++) {
    const began = performance.now()
    writeFileSync(join(app, 'server.ts'), saved(round))
    await until(url, dev, (text) => text.includes(`:${round}`))
    times.dev.push(performance.now() - began)
    times.bare.push(await bareStart())
  }
  const ratio = median(times.dev.map((ms, at) => ms / times.bare[at]!))
  console.log(
    `the app of init, save to first answer: ${median(times.dev).toFixed(0)} ms (goal on a quiet machine: 500); ` +
      `bare start: ${median(times.bare).toFixed(0)} ms; ratio ${ratio.toFixed(2)} (goal: at most 1.25)`,
  )
} finally {
  dev.kill('SIGTERM')
  await once(dev, 'exit')
  rmSync(folder, { recursive: true, force: true })
}
