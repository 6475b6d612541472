import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync, watch } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { testApp } from '#core/testing'
import { AppFolder, type Serving } from '../support/command-line.ts'
import { root } from '../support/process.ts'
import { readMetrics } from '../support/prometheus-text.ts'

const server = `import { defineApp } from 'oracle-runtime'
const app = defineApp({ plugins: [] })
export default app
if (import.meta.main) await app.listen()
`
const unfinished = /^\.oracle-.*\.sqlite$/
const whole = /^oracle-.*Z\.sqlite$/
const operator = { authorization: 'Bearer an-operator-token-of-a-test-1234567890' }

const integrity = (path: string): unknown => {
  const database = new DatabaseSync(path, { readOnly: true })
  const row = database.prepare('pragma integrity_check').get()
  database.close()
  return row?.integrity_check
}

/** A folder with a database that takes a while to copy, and a folder for its copies. */
async function filled(folder: AppFolder): Promise<{ dataDir: string; copies: string }> {
  const dataDir = join(folder.path, '.data')
  const copies = join(folder.path, 'copies')
  mkdirSync(copies)
  await (await testApp({ plugins: [], env: { DATA_DIR: dataDir } })).close()
  const database = new DatabaseSync(join(dataDir, 'oracle.sqlite'))
  database.exec(`create table large (id integer primary key, body blob);
    with recursive n (i) as (select 1 union all select i + 1 from n where i < 3000)
    insert into large (body) select randomblob(20000) from n`)
  database.close()
  return { dataDir, copies }
}

/** Resolves once a copy is being written into a folder. */
const begun = (folder: string): Promise<void> =>
  new Promise((resolve) => {
    const watcher = watch(folder, (_, name) => name && unfinished.test(name) && done())
    const done = () => {
      watcher.close()
      resolve()
    }
    if (readdirSync(folder).some((name) => unfinished.test(name))) done()
  })

/** The process that copies for a server. */
function copier(serving: Serving): number | undefined {
  const children = readFileSync(`/proc/${serving.pid}/task/${serving.pid}/children`, 'utf8')
  return Number(children.trim().split(' ')[0]) || undefined
}

describe('a scheduled copy', () => {
  it('that is killed leaves nothing, and the server tells of it and serves on', async () => {
    using folder = new AppFolder(server)
    const { copies } = await filled(folder)
    const serving = await folder.serve({ BACKUP_DIR: copies })
    onTestFinished(() => serving.stop('SIGKILL'))
    await begun(copies)
    await expect.poll(() => copier(serving), { timeout: 30_000 }).toBeDefined()
    process.kill(copier(serving)!, 'SIGKILL')
    await serving.said(/The database was not copied/)
    expect(readdirSync(copies)).toEqual([])
    const health = await (await fetch(`${serving.url}/health`)).json()
    expect(health).toMatchObject({ status: 'ok', backup: { isOverdue: false } })
    expect(health).not.toHaveProperty('backup.at')
  }, 120_000)

  it('whose server is killed is no copy, and the next server makes a whole one and tells its age', async () => {
    using folder = new AppFolder(server)
    const { copies } = await filled(folder)
    const env = { BACKUP_DIR: copies, OPERATOR_TOKEN: operator.authorization.slice(7) }
    const first = await folder.serve(env)
    await begun(copies)
    await first.stop('SIGKILL')
    expect(readdirSync(copies).filter((name) => whole.test(name))).toEqual([])
    const second = await folder.serve(env)
    onTestFinished(() => second.stop('SIGKILL'))
    await second.said(/The database was copied/)
    const [made = '', ...others] = readdirSync(copies)
    expect(others).toEqual([])
    expect(made).toMatch(whole)
    expect(integrity(join(copies, made))).toBe('ok')
    const { backup } = (await (await fetch(`${second.url}/health`)).json()) as {
      backup: { at: string; ageSeconds: number; isOverdue: boolean }
    }
    expect(`oracle-${backup.at.replace(/[:.]/g, '-')}.sqlite`).toBe(made)
    expect(backup.isOverdue).toBe(false)
    const metrics = await (await fetch(`${second.url}/metrics`, { headers: operator })).text()
    expect(readMetrics(metrics).value('oracle_backup_age_seconds')).toBeGreaterThanOrEqual(
      backup.ageSeconds,
    )
  }, 120_000)
})

/** Whether this user may mount a small disk that nobody else sees. */
const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0

describe('a disk that is full', () => {
  if (mayMount)
    it('takes no backup: the command says so, leaves nothing there, and the database stays as it was', async () => {
      using folder = new AppFolder()
      const { dataDir, copies } = await filled(folder)
      const before = statSync(join(dataDir, 'oracle.sqlite')).mtimeMs
      const ran = spawnSync(
        'unshare',
        [
          ...['-rm', 'sh', '-c'],
          `mount -t tmpfs -o size=2m tmpfs "$1" && { "$2" "$3" backup "$1/copy.sqlite"; echo "code $?"; ls -A "$1" | wc -l; }`,
          ...['sh', copies, process.execPath, join(root, 'cli/bin.js')],
        ],
        { cwd: folder.path, encoding: 'utf8', env: { PATH: process.env.PATH ?? '' } },
      )
      expect(ran.stderr).toMatch(/copy\.sqlite was not made: .*(full|disk I\/O)/)
      expect(ran.stderr).toContain('with room for it')
      expect(ran.stdout).toBe('code 1\n0\n')
      expect(statSync(join(dataDir, 'oracle.sqlite')).mtimeMs).toBe(before)
      expect(integrity(join(dataDir, 'oracle.sqlite'))).toBe('ok')
    }, 120_000)

  if (mayMount)
    it('takes no scheduled copy: the log and /health tell of it, and the server keeps the copies of before, and serves on', async () => {
      using folder = new AppFolder(server)
      const { copies } = await filled(folder)
      const old = 'oracle-2026-01-01T00-00-00-000Z.sqlite'
      folder.write(
        'small-disk.sh',
        `mount -t tmpfs -o size=2m tmpfs copies && touch copies/${old} &&
          exec "$NODE" --conditions=oracle-runtime-source server.ts`,
      )
      const serving = await folder.serve({ BACKUP_DIR: copies, NODE: process.execPath }, [
        'unshare',
        '-rm',
        'sh',
        'small-disk.sh',
      ])
      onTestFinished(() => serving.stop('SIGKILL'))
      await serving.said(/The database was not copied/)
      expect(serving.printed()).toMatch(/full|disk I\/O/)
      const health = await fetch(`${serving.url}/health`)
      expect(health.status).toBe(200)
      expect(await health.json()).toMatchObject({
        status: 'degraded',
        backup: { at: '2026-01-01T00:00:00.000Z', isOverdue: true },
      })
      const inside = spawnSync('ls', ['-A', `/proc/${serving.pid}/root${copies}`], {
        encoding: 'utf8',
      })
      expect([inside.status, inside.stdout]).toEqual([0, `${old}\n`])
    }, 120_000)

  if (!mayMount && process.env.REQUIRE_ALL === '1')
    it('needs a machine that lets its users mount a disk of their own', () =>
      expect.fail('unshare -rm mount -t tmpfs does not work here.'))
})
