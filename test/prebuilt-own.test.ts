import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { buildOwn } from '../prebuilt/own-build.ts'
import { currentList } from '../prebuilt/own-list.ts'
import {
  here,
  manifest,
  newCheckout,
  removeCheckouts,
  temporary,
  type Told,
  told,
} from './support/small-checkout.ts'

const run = promisify(execFile)
afterAll(removeCheckouts)

/** What a program says with the sources as they are, which it has to say with those that are built as well. */
async function saidTwice(
  { root, folder }: { readonly root: string; readonly folder: string },
  program: string,
): Promise<{ readonly said: Told['said']; readonly sources: readonly string[] }> {
  const plain = await told(root, undefined, program)
  await buildOwn(folder, root)
  const built = await told(root, folder, program)
  expect(built.said).toEqual(plain.said)
  expect(built.loaded.some((path) => path.startsWith('node_modules/.cache/own/own-'))).toBe(true)
  return { said: built.said, sources: built.loaded.filter((path) => path.endsWith('.ts')) }
}

const server = `const core = await import('#core')
  const { plugins } = await import('./plugins/index.ts')
  export default { core, plugins }
  if (import.meta.main) throw new Error('imported, and not started')`

const small = {
  'server.ts': server,
  'core/index.ts': `export { state } from './state.ts'
    export { where } from './where.ts'
    export { fail, failLater } from './fail.ts'
    export const later = async (): Promise<object> => (await import('./later.ts')).seen`,
  'core/state.ts': `class Counter { count: number = 0 }\nexport const state = new Counter()`,
  'core/later.ts': `import { state } from './state.ts'
    class Counter { readonly state = state }
    export const seen = new Counter()
    export default Counter`,
  'core/where.ts': `export const where: object = [import.meta.url, import.meta.filename, import.meta.dirname,
    import.meta.main, 'import.meta.url', import.meta.resolve('node:fs')]
    // A package that is wanted perhaps.
    export const perhaps = () => import('not-installed')`,
  'core/fail.ts': `interface Reason {
  readonly text: string
}

export function fail(reason: Reason): never {
  throw new TypeError(reason.text)
}
export const failLater = async (reason: Reason) => {
  await Promise.resolve()
  const inner = () => fail(reason)
  inner()
}`,
  'plugins/index.ts': `import { one } from './one/index.ts'\nexport const plugins = [one]`,
  'plugins/one/index.ts': `import { state } from '#core'
    class Counter { readonly state = state }
    export const one = new Counter()`,
}

describe('the built sources of a checkout', { timeout: 60_000 }, () => {
  it('are one copy, whoever imports one of them and however', async () => {
    const checkout = newCheckout(small)
    checkout.write('own.ts', `export { state } from './core/state.ts'`)
    const { said, sources } = await saidTwice(
      checkout,
      `const { default: { core, plugins } } = await import('./server.ts')
      const { state } = core
      state.count++
      const absolute = await import(${JSON.stringify(pathToFileURL(join(checkout.root, 'core/state.ts')).href)})
      const seen = await core.later()
      const all = [(await import('./own.ts')).state, (await import('./core/state.ts')).state, absolute.state,
        (await import('small-oracle')).state, plugins[0].state, seen.state]
      const fresh = await import('./core/state.ts?fresh')
      return { same: all.map((one) => one === state), names: [state, plugins[0], seen].map((one) => one.constructor.name),
        keys: Object.keys(await import('./core/later.ts')), fresh: fresh.state.count }`,
    )
    expect(said).toEqual({
      same: [true, true, true, true, true, true],
      names: ['Counter', 'Counter', 'Counter'],
      keys: ['default', 'seen'],
      fresh: 0,
    })
    // No other source was read than the one that the server does not import.
    expect(sources).toEqual(['own.ts'])
  })

  it('know the places of their sources', async () => {
    const checkout = newCheckout(small)
    const { said } = await saidTwice(
      checkout,
      `return (await import('./server.ts')).default.core.where`,
    )
    const file = join(checkout.root, 'core/where.ts')
    expect(said).toEqual([
      pathToFileURL(file).href,
      file,
      dirname(file),
      false,
      'import.meta.url',
      'node:fs',
    ])
  })

  it('do not stand in for the source that a process is started with', async () => {
    const { root, folder } = newCheckout({
      ...small,
      'server.ts': `const { state } = await import('#core')
        export default state
        if (import.meta.main) console.log(JSON.stringify(state))`,
    })
    await buildOwn(folder, root)
    const node = ['--import', join(root, 'program.mjs'), join(root, 'server.ts')]
    await told(root, folder, 'return 0')
    const { stdout } = await run(process.execPath, node, { env: { PATH: process.env.PATH } })
    expect(stdout.trim().split('\n').at(-1)).toBe('{"count":0}')
  })

  it('name, in the stack of an error, the lines of their sources', async () => {
    const checkout = newCheckout(small)
    const stack = `const { core } = (await import('./server.ts')).default
      const { stack } = await core.failLater({ text: 'for a reason' }).catch((error) => error)
      return stack.split('\\n').slice(0, 4)`
    const { said } = await saidTwice(checkout, stack)
    const file = pathToFileURL(join(checkout.root, 'core/fail.ts')).href
    expect(said).toEqual([
      'TypeError: for a reason',
      `    at fail (${file}:6:9)`,
      `    at inner (${file}:10:23)`,
      `    at Module.failLater (${file}:11:3)`,
    ])
    // Without the map there is a stack as well, of the built file.
    const build = readdirSync(checkout.folder).find((name) => name.startsWith('own-'))
    for (const name of readdirSync(join(checkout.folder, build ?? '', 'shared')))
      if (name.endsWith('.map')) rmSync(join(checkout.folder, build ?? '', 'shared', name))
    const without = await told(checkout.root, checkout.folder, stack)
    expect(without.said[0]).toBe('TypeError: for a reason')
    expect(without.said[1]).toMatch(/^ {4}at fail \(file:.*\/start-.*\.mjs:\d+:\d+\)$/)
  })

  it('leave alone what is no plain source: links, JavaScript, a folder that is a package', async () => {
    const checkout = newCheckout({
      ...small,
      'plugins/index.ts': `import { one } from './one/index.ts'
        import { linked } from './linked/index.ts'
        import { packaged } from './packaged/index.ts'
        import { script } from './script/index.js'
        import text from './data.json' with { type: 'json' }
        export const plugins = [one, linked, packaged, script, text]`,
      // Each takes something of the core while it is evaluated: the core has to be there before.
      'elsewhere/index.ts': `import { state } from '#core'\nexport const linked = { of: state.constructor.name }`,
      'plugins/packaged/package.json': '{ "type": "module" }',
      'plugins/packaged/index.ts': `import { state } from '../../core/index.ts'
        import { own } from 'of-its-own'
        export const packaged = { of: state.constructor.name, own }`,
      'plugins/packaged/node_modules/of-its-own/package.json': '{ "exports": "./index.js" }',
      'plugins/packaged/node_modules/of-its-own/index.js': `exports.own = 'of the folder'`,
      'plugins/script/index.js': `import { one } from '../one/index.ts'\nexport const script = { of: one.constructor.name }`,
      'plugins/data.json': '{ "text": "of a file" }',
    })
    symlinkSync('../elsewhere', join(checkout.root, 'plugins/linked'))
    const { said } = await saidTwice(
      checkout,
      `const { plugins } = (await import('./server.ts')).default
      return plugins.map((each) => each.text ?? each.of ?? 'one')`,
    )
    expect(said).toEqual(['one', 'Counter', 'Counter', 'Counter', 'of a file'])
  })

  it('start, where a package imports one of them', async () => {
    const checkout = newCheckout({
      ...small,
      'plugins/index.ts': `import { one } from './one/index.ts'
        import { outside } from 'outside'
        export const plugins = [one.constructor.name, outside]`,
      'node_modules/outside/package.json': JSON.stringify({
        type: 'module',
        exports: './index.js',
        peerDependencies: { 'small-oracle': '*' },
      }),
      'node_modules/outside/index.js': `import { state } from 'small-oracle'\nexport const outside = state.constructor.name`,
    })
    symlinkSync('..', join(checkout.root, 'node_modules/small-oracle'))
    const { said } = await saidTwice(
      checkout,
      `return (await import('./server.ts')).default.plugins`,
    )
    expect(said).toEqual(['Counter', 'Counter'])
  })

  it('start, where one of them waits for another while it is imported', async () => {
    const checkout = newCheckout({
      ...small,
      'plugins/one/index.ts': `const { two } = await import('../two/index.ts')
        for await (const each of [two]) void each
        export const one = { two }`,
      'plugins/two/index.ts': `import { state } from '#core'\nexport const two = state.constructor.name`,
      'plugins/index.ts': `import { two } from './two/index.ts'
        import { one } from './one/index.ts'
        export const plugins = [one, two]`,
    })
    const { said } = await saidTwice(
      checkout,
      `return (await import('./server.ts')).default.plugins`,
    )
    expect(said).toEqual([{ two: 'Counter' }, 'Counter'])
  })

  describe('are not used', () => {
    const checkout = newCheckout(small)
    beforeAll(() => buildOwn(checkout.folder, checkout.root))
    beforeEach(() => expect(currentList(checkout.folder, checkout.root)).toBeDefined())
    const count = async (root = checkout.root, folder = checkout.folder) => {
      const { said, loaded } = await told(
        root,
        folder,
        `return (await import('./server.ts')).default.core.state.count`,
      )
      return { said, isBuilt: !loaded.includes('core/state.ts') }
    }
    const changed = small['core/state.ts'].replace('= 0', '= 7')

    it('when one of them was edited, if only by one sign', async () => {
      expect(await count()).toEqual({ said: 0, isBuilt: true })
      checkout.write('core/state.ts', changed, new Date())
      expect(await count()).toEqual({ said: 7, isBuilt: false })
      checkout.write('core/state.ts', small['core/state.ts'])
    })

    it('when a file is gone that is imported later', async () => {
      rmSync(join(checkout.root, 'core/later.ts'))
      expect(await count()).toEqual({ said: 0, isBuilt: false })
      checkout.write('core/later.ts', small['core/later.ts'])
    })

    it('when the package means another file by a name', async () => {
      checkout.write('core/other.ts', `export const state = { count: 9 }`)
      checkout.write('package.json', manifest.replaceAll('index.ts', 'other.ts'), new Date())
      expect(await count()).toMatchObject({ said: 9 })
      checkout.write('package.json', manifest)
    })

    it('when the checkout was moved', async () => {
      const moved = `${checkout.root}-moved`
      cpSync(checkout.root, moved, { recursive: true, preserveTimestamps: true })
      expect(await count(moved, join(moved, 'node_modules/.cache/own'))).toEqual({
        said: 0,
        isBuilt: false,
      })
    })

    it('when the list cannot be read, is of another version or names a build that is gone', async () => {
      const path = join(checkout.folder, 'own.json')
      const list = readFileSync(path, 'utf8')
      for (const wrong of ['{', 'null', '{}', list.replace('"format":1', '"format":0')]) {
        writeFileSync(path, wrong)
        expect(await count()).toEqual({ said: 0, isBuilt: false })
      }
      writeFileSync(path, list)
      const { build } = JSON.parse(list)
      renameSync(join(checkout.folder, build), join(checkout.folder, 'elsewhere'))
      expect(await count()).toEqual({ said: 0, isBuilt: false })
      renameSync(join(checkout.folder, 'elsewhere'), join(checkout.folder, build))
    })
  })

  it('are not built of a file that is just being written, and nothing is left of the try', async () => {
    const { root, folder, write } = newCheckout(small)
    write('core/state.ts', small['core/state.ts'], new Date(Date.now() + 1_000))
    await expect(buildOwn(folder, root)).rejects.toThrow('core/state.ts is being written')
    expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([])
  })

  it('are no build where they cannot be imported as one', async () => {
    // A package of which nobody says that it imports a source.
    const { root, folder } = newCheckout({
      ...small,
      'plugins/index.ts': `import { outside } from 'outside'\nexport const plugins = [outside]`,
      'node_modules/outside/package.json': '{ "type": "module", "exports": "./index.js" }',
      'node_modules/outside/index.js': `import { state } from '../../core/state.ts'\nexport const outside = state.count`,
    })
    const { said } = await told(
      root,
      undefined,
      `return (await import('./server.ts')).default.plugins`,
    )
    expect(said).toEqual([0])
    await expect(buildOwn(folder, root)).rejects.toThrow('Cannot access')
    expect(readdirSync(folder)).toEqual([])
  })

  it('are built by two at once', async () => {
    const { root, folder } = newCheckout(small)
    await Promise.all([buildOwn(folder, root), buildOwn(folder, root)])
    expect(currentList(folder, root)).toBeDefined()
  })

  it('stay for as long as a server uses them, and are deleted an hour later', async () => {
    const { root, folder, write } = newCheckout(small)
    const builds = () => readdirSync(folder).filter((name) => name.startsWith('own-'))
    const build = async () => {
      const before = existsSync(folder) ? builds() : []
      await buildOwn(folder, root)
      return builds().find((name) => !before.includes(name)) ?? ''
    }
    const old = (name: string) =>
      utimesSync(
        join(folder, name),
        ...([0, 0].map(() => new Date(Date.now() - 3_700_000)) as [Date, Date]),
      )
    const first = await build()
    const left = join(folder, 'new-own-1-1')
    mkdirSync(left)
    old(first)
    old('new-own-1-1')
    await told(root, folder, `return (await import('./server.ts')).default.plugins.length`)
    write('core/state.ts', `${small['core/state.ts']}\n`)
    const second = await build()
    expect(builds().toSorted()).toEqual([first, second].toSorted())
    expect(existsSync(left)).toBe(false)
    old(first)
    write('core/state.ts', `${small['core/state.ts']}\n\n`)
    const third = await build()
    expect(builds().toSorted()).toEqual([second, third].toSorted())
  })
})

describe('the built sources of this checkout', { timeout: 120_000 }, () => {
  it('export what the sources export, each of them', async () => {
    const folder = join(temporary, 'this')
    await buildOwn(folder, here)
    const { files } = currentList(folder, here) ?? { files: [] }
    const paths = files.flatMap(([path, , , isModule]) =>
      isModule && path !== 'server.ts' ? [pathToFileURL(join(here, path)).href] : [],
    )
    expect(paths.length).toBeGreaterThan(1_000)
    const names = async (built: boolean) => {
      const at = (path: string) => JSON.stringify(pathToFileURL(join(here, path)).href)
      const program = `const { useOwn } = await import(${at('prebuilt/own-use.ts')})
        if (${built}) useOwn(${JSON.stringify(folder)}, ${JSON.stringify(here)})
        const names = {}
        for (const url of ${JSON.stringify(paths)}) names[url] = Object.keys(await import(url))
        console.log(JSON.stringify(names))
        process.exit()`
      const { stdout } = await run(
        process.execPath,
        ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program],
        { cwd: here, env: { PATH: process.env.PATH }, maxBuffer: 2 ** 26 },
      )
      return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
    }
    expect(await names(true)).toEqual(await names(false))
  })
})
