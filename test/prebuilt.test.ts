import { execFile } from 'node:child_process'
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
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { foldersOf, prebuiltGroups } from '../prebuilt/packages.ts'

const root = resolve(import.meta.dirname, '..')
const run = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'oracle-prebuilt-'))
const made = join(folder, 'made')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs a program in a process of its own and reads the JSON that it prints last. */
async function told(program: string, at = root): Promise<any> {
  const { stdout } = await run(
    process.execPath,
    ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program],
    { cwd: at, env: { PATH: process.env.PATH }, maxBuffer: 2 ** 26 },
  )
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
}

const at = (path: string) => JSON.stringify(pathToFileURL(join(root, path)).href)

/** The lines by which a program uses what was prebuilt in a folder, and notes what it loads. */
const using = (prebuilt: string) => `
  import { registerHooks } from 'node:module'
  const loaded = []
  registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
  const { usePrebuilt } = await import(${at('prebuilt/use.ts')})
  const { prebuiltGroups } = await import(${at('prebuilt/packages.ts')})
  usePrebuilt(${JSON.stringify(prebuilt)}, prebuiltGroups)
  const packages = /node_modules\\/(kysely|zod|@langchain\\/(core|langgraph|langgraph-checkpoint)|langsmith)\\//
  const installed = () => loaded.filter((url) => packages.test(url))
`

/** A copy of the folder in which a record of one file is no longer true. */
function withStale(group: string): string {
  const stale = join(folder, `stale-${group}`)
  cpSync(made, stale, { recursive: true })
  const path = join(stale, `${group}.json`)
  const list = JSON.parse(readFileSync(path, 'utf8'))
  list.packages[0].files.at(-1)[1] += 1
  writeFileSync(path, JSON.stringify(list))
  return stale
}

const imported = `await import('kysely'); await import('zod'); await import('@langchain/langgraph')`

describe('files of a checkout that find each other', () => {
  const checkout = join(folder, 'checkout')
  const write = (path: string, source: string) => {
    mkdirSync(dirname(join(checkout, path)), { recursive: true })
    writeFileSync(join(checkout, path), source)
  }
  const finding = `
    const { findOwnFiles } = await import(${at('prebuilt/own-files.ts')})
    findOwnFiles(${JSON.stringify(`${pathToFileURL(checkout)}/`)})
    const main = ${JSON.stringify(pathToFileURL(join(checkout, 'main.ts')).href)}`

  it('are the same files that Node finds, also by a symbolic link', async () => {
    write('package.json', '{ "type": "module" }')
    write('real/one.ts', 'export const one: object = {}')
    symlinkSync('real', join(checkout, 'linked'))
    symlinkSync('one.ts', join(checkout, 'real/other.ts'))
    write(
      'main.ts',
      ['real/one', 'linked/one', 'real/other', 'real/../real/one']
        .map((path, index) => `export { one as one${index} } from './${path}.ts'\n`)
        .join(''),
    )
    const program = `${finding}
      const ones = Object.values(await import(main))
      console.log(JSON.stringify([ones.length, new Set(ones).size]))`
    expect(await told(program)).toEqual([4, 1])
  })

  it('get by a name what their own package and its packages mean by it', async () => {
    const name = (means: string, type = 'module') =>
      JSON.stringify({ type, imports: { '#name': means }, exports: './index.js' })
    const own = (path: string, format = 'export const own =') =>
      write(path, `${format} ${JSON.stringify(path)}`)
    write('package.json', name('./ours.ts'))
    write('plugins/package/package.json', name('./theirs.js', 'commonjs'))
    for (const folder of ['', 'plugins/packages/']) {
      write(`${folder}node_modules/library/package.json`, name('./index.js'))
      own(`${folder}node_modules/library/index.js`)
    }
    own('ours.ts')
    own('plugins/package/theirs.js', 'exports.own =')
    const says = `export { own as named } from '#name'\nexport { own as library } from 'library'`
    for (const folder of ['', 'plugins/', 'plugins/packages/'])
      write(`${folder}says.ts`, `${says}\nexport { sep } from 'node:path'`)
    // Of CommonJS: TypeScript in a package without modules.
    write('plugins/package/says.ts', `exports.named = require('#name').own`)
    const from = ['', 'plugins/', 'plugins/packages/', 'plugins/package/']
    write('main.ts', from.map((at, i) => `export * as from${i} from './${at}says.ts'`).join('\n'))
    const program = `${finding}
      console.log(JSON.stringify(Object.values(await import(main)).map(({ named, library }) => [named, library])))`
    const ours = 'node_modules/library/index.js'
    expect(await told(program)).toEqual([
      ['ours.ts', ours],
      ['ours.ts', ours],
      ['ours.ts', 'plugins/packages/node_modules/library/index.js'],
      ['plugins/package/theirs.js', null],
    ])
  })

  it('that are missing are named, and who imports them', async () => {
    write('main.ts', `import './real/absent.ts'`)
    const program = `${finding}
      const { code, message } = await import(main).catch((error) => error)
      console.log(JSON.stringify({ code, message }))`
    expect(await told(program)).toEqual({
      code: 'ERR_MODULE_NOT_FOUND',
      message: expect.stringMatching(/real\/absent\.ts.*imported from.*main\.ts/),
    })
  })
})

describe('prebuilt packages', { timeout: 120_000 }, () => {
  beforeAll(async () => {
    const { buildPrebuilt } = await import('../prebuilt/build.ts')
    await buildPrebuilt(made, prebuiltGroups)
  }, 120_000)

  it('export, at every entry, what the packages export', async () => {
    const urls = [...(foldersOf(prebuiltGroups) ?? [])].flatMap(([name, home]) => {
      const group = Object.entries(prebuiltGroups).find(([, all]) =>
        all.some((one) => one.name === name),
      )
      const { packages } = JSON.parse(readFileSync(join(made, `${group?.[0]}.json`), 'utf8'))
      const { entries } = packages.find((one: { name: string }) => one.name === name)
      return entries.map(([path]: [string]) => pathToFileURL(join(home, path)).href)
    })
    expect(urls.length).toBeGreaterThan(50)
    const names = `
      const names = {}
      for (const url of ${JSON.stringify(urls)})
        names[url] = await import(url).then((all) => Object.keys(all), () => 'needs a package that is not installed')
    `
    const [original, prebuilt] = await Promise.all([
      told(`${names}; console.log(JSON.stringify({ names })); process.exit()`),
      told(
        `${using(made)}; ${names}; console.log(JSON.stringify({ names, installed: installed() })); process.exit()`,
      ),
    ])
    expect(prebuilt.names).toEqual(original.names)
    expect(prebuilt.installed).toEqual([])
  })

  it('are one copy, however a plugin imports them', async () => {
    const kysely = foldersOf(prebuiltGroups)?.get('kysely') ?? ''
    const ofKysely = pathToFileURL(join(kysely, 'dist/index.js')).href
    const { same, instances, installed } = await told(`${using(made)}
      import { createRequire } from 'node:module'
      const require = createRequire(${at('plugins/mine/index.ts')})
      const { Kysely } = await import('kysely')
      const { z } = await import('zod')
      const core = await import('zod/v4/core')
      const messages = await import('@langchain/core/messages')
      const graph = await import('@langchain/langgraph')
      console.log(JSON.stringify({
        same: [
          Kysely === (await import(${JSON.stringify(ofKysely)})).Kysely,
          Kysely === require('kysely').Kysely,
          graph.START === (await import('@langchain/langgraph/web')).START,
        ],
        instances: [
          z.string() instanceof core.$ZodType,
          new messages.HumanMessage('hello') instanceof (await import('@langchain/core/messages')).BaseMessage,
          z.globalRegistry === core.globalRegistry,
        ],
        installed: installed(),
      }))
      process.exit()`)
    expect(same).toEqual([true, true, true])
    expect(instances).toEqual([true, true, true])
    expect(installed).toEqual([])
  })

  it('leave another installed copy of a package alone', async () => {
    const app = join(folder, 'app')
    mkdirSync(join(app, 'node_modules/kysely'), { recursive: true })
    const manifest = { name: 'kysely', version: '0.1.0', type: 'module', exports: './index.js' }
    writeFileSync(join(app, 'node_modules/kysely/package.json'), JSON.stringify(manifest))
    writeFileSync(join(app, 'node_modules/kysely/index.js'), `export const own = 'their own'`)
    writeFileSync(join(app, 'plugin.js'), `export { own } from 'kysely'`)
    const plugin = JSON.stringify(pathToFileURL(join(app, 'plugin.js')).href)
    const program = `${using(made)}
      const { own } = await import(${plugin})
      console.log(JSON.stringify({ own, isThere: 'Kysely' in (await import('kysely')) }))`
    expect(await told(program)).toEqual({ own: 'their own', isThere: true })
  })

  it('stand aside, a group at a time, when a file of a package has changed', async () => {
    const groupsOf = async (prebuilt: string) => {
      const program = `${using(prebuilt)}; ${imported}
        console.log(JSON.stringify([...new Set(installed().map((url) => /node_modules\\/([@\\w]+)/.exec(url)[1]))].sort()))
        process.exit()`
      return told(program)
    }
    const all = ['@langchain', 'kysely', 'langsmith', 'zod']
    expect(await groupsOf(made)).toEqual([])
    expect(await groupsOf(withStale('turns'))).toEqual(['@langchain', 'langsmith'])
    expect(await groupsOf(withStale('start'))).toEqual(all)
    expect(await groupsOf(join(folder, 'nothing'))).toEqual(all)
  })

  it('carry out a turn', async () => {
    const program = `${using(made)}
      const { testApp } = await import(${at('testing.ts')})
      const { default: weather } = await import(${at('plugins/weather/index.ts')})
      const app = await testApp({ plugins: [weather] })
      const { text } = await (await app.user()).say('Hello')
      await app.close()
      console.log(JSON.stringify({ text, installed: installed() }))
      process.exit()`
    const { text, installed } = await told(program)
    expect(text).toMatch(/\w/)
    expect(installed).toEqual([])
  })

  it('are what a server uses that finds them', async () => {
    await run(process.execPath, ['scripts/prebuild.ts'], { cwd: root })
    const { isCurrent } = await import('../prebuilt/use.ts')
    const { prebuiltFolder } = await import('../prebuilt/checkout.ts')
    expect(isCurrent(prebuiltFolder, prebuiltGroups)).toBe(true)
    const program = `
      import { registerHooks } from 'node:module'
      registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) })
      process.env.NODE_ENV = 'development'; process.env.PORT = '0'; process.env.DATA_DIR = ':memory:'
      await import('./start.js')
      process.exit()`
    const { stdout } = await run(
      process.execPath,
      ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program],
      { cwd: root, env: { PATH: process.env.PATH } },
    )
    expect(stdout).toContain('listening on')
    expect(stdout).toContain('.cache/oracle-runtime/prebuilt/')
    expect(stdout).not.toMatch(/node_modules\/(kysely|zod)\//)
  })
})
