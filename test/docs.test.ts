import { execFileSync } from 'node:child_process'
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { generated, withBlocks } from '../scripts/docs.ts'
import { runProgram, shellBlock } from './support/page-program.ts'
import { urlOf } from './support/services.ts'

const root = resolve(import.meta.dirname, '..')
const pages = [
  'README.md',
  ...globSync('docs/**/*.md', { cwd: root }),
  ...globSync('plugins/*/README.md', { cwd: root }),
]

interface Block {
  readonly page: string
  /**
   * `file: <path>` builds that file, `include: <path>` shows it as it is, `outside: <path>` is built by the test of the
   * package, in an app outside of this repository.
   */
  readonly mark: string | undefined
  /** `tsx` is for browsers, `ts` for Node. */
  readonly kind: string
  readonly code: string
}

const blocks: Block[] = pages.flatMap((page) =>
  [
    ...readFileSync(join(root, page), 'utf8').matchAll(
      /(?:<!-- ([^\n]+?) -->\n\n)?```(tsx?)\n(.*?)```/gs,
    ),
  ].map(([, mark, kind, code]) => ({
    page,
    mark,
    kind: kind!,
    code: code!,
  })),
)
/** Without what a formatter may change between a step and the whole. */
const squeezed = (code: string) => code.replace(/[\s;]+/g, '').replace(/,(?=[)\]}]|$)/g, '')
const node = (args: string[], cwd = root, env: Record<string, string | undefined> = {}) =>
  execFileSync(process.execPath, args, {
    cwd,
    stdio: 'pipe',
    encoding: 'utf8',
    env: { ...process.env, FORCE_COLOR: '0', ...env },
  })

/** What vitest tells of the tests that it ran. */
interface TestReport {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly title: string; readonly status: string }[]
  }[]
}

describe('the documentation', () => {
  // Inside the project, so that #core and the packages resolve as they do for an author.
  const folder = mkdtempSync(join(root, '.docs-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const files = blocks.filter(({ mark }) => mark?.startsWith('file: '))
  const included = blocks.filter(({ mark }) => mark?.startsWith('include: '))
  const loose = blocks.filter(({ mark }) => !mark)
  const programs = loose.filter(({ code }) => /^import /m.test(code))
  const fragments = loose.filter(({ code }) => !/^import /m.test(code))

  it.each(Object.entries(generated))(
    '%s has its generated parts up to date',
    async (path, parts) => {
      const page = readFileSync(join(root, path), 'utf8')
      expect(await withBlocks(page, parts), 'run: npm run docs').toBe(page)
    },
    60_000,
  )

  it('says of every block what it is for', () => {
    for (const { page, mark } of blocks)
      expect(mark ?? 'file: part of a file', page).toMatch(/^(file|include|outside): /)
  })

  it('shows included files as they are', () => {
    expect(included.length).toBeGreaterThan(0)
    for (const { mark, code } of included)
      expect(code).toBe(readFileSync(join(root, mark!.slice('include: '.length)), 'utf8'))
  })

  it('has no fragment that is not part of a whole file', () => {
    expect(fragments.length).toBeGreaterThan(5)
    for (const { page, code } of fragments) {
      const wholes = files.filter((file) => file.page === page).map((file) => squeezed(file.code))
      expect(
        wholes.some((whole) => whole.includes(squeezed(code))),
        `${page}:\n${code}`,
      ).toBe(true)
    }
  })

  it('builds, type-checks and tests exactly what its pages spell out', async () => {
    expect(files.length).toBeGreaterThan(1)
    for (const { mark, code } of files) {
      const path = join(folder, mark!.slice('file: '.length))
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, code)
    }
    const plugins = globSync('plugins/*/index.ts', { cwd: root }).map((path) => dirname(path))
    for (const plugin of plugins) symlinkSync(join(root, plugin), join(folder, plugin))
    programs.forEach(({ kind, code }, i) =>
      writeFileSync(join(folder, `program-${i}.${kind}`), code),
    )
    // Tests beside a plugin may reach for test/support, which is not here, and pages for a browser: both are
    // checked where they are.
    const exclude = plugins.flatMap((plugin) =>
      ['**/*.test.ts', 'page', 'view'].map((part) => `${plugin}/${part}`),
    )
    const forNode = { extends: '../tsconfig.json', include: ['**/*.ts'], exclude }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(forNode))

    const forBrowsers = { extends: '../tsconfig.browser.json', include: ['*.tsx'], exclude: [] }
    writeFileSync(join(folder, 'tsconfig.browser.json'), JSON.stringify(forBrowsers))

    for (const name of ['tsconfig.json', 'tsconfig.browser.json'])
      expect(node(['node_modules/typescript/bin/tsc', '-p', join(folder, name)])).toBe('')
    const config = join(root, 'vitest.config.ts')
    const run = ['run', '--root', folder, '--config', config, 'field-notes', 'recipes/']
    const reportFile = join(folder, 'report.json')
    const json = ['--reporter', 'json', '--outputFile', reportFile]
    const database = await urlOf('postgres')
    node(['node_modules/vitest/vitest.mjs', ...run, ...json], root, { TEST_DATABASE_URL: database })
    const report: TestReport = JSON.parse(readFileSync(reportFile, 'utf8'))
    const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults)
    expect(tests.filter(({ status }) => status !== 'passed')).toEqual([])
    const spelledOut = files
      .filter(({ mark }) => mark?.endsWith('.test.ts'))
      .flatMap(({ code }) => [...code.matchAll(/^it(?:\.each\(\w+\))?\('([^']+)'/gm)])
      .map(([, title = '']) => title)
    expect(spelledOut.length).toBeGreaterThan(20)
    const ran = (title: string) =>
      tests.some((test) => test.title.startsWith(title.replace(/%s.*$/, '')))
    expect(spelledOut.filter((title) => !ran(title))).toEqual([])
    // One recipe runs a second time where there is a PostgreSQL.
    expect(tests).toHaveLength(spelledOut.length + (database === undefined ? 0 : 1))
  }, 600_000)

  it('getting-started runs its application by the command that it names', async () => {
    const [command = '', curl = ''] = shellBlock(
      'docs/getting-started.md',
      'examples/minimal',
    ).split('\n')
    await using program = await runProgram(command, root)
    const path = /http:\/\/127\.0\.0\.1:3000([^"]*)/.exec(curl)?.[1]
    const answer = await fetch(program.url + path)
    expect(await answer.json()).toEqual({ rolled: expect.any(Number) })
  }, 60_000)

  it('README runs its plugin by the command that it names', async () => {
    const [program] = programs.filter(({ page }) => page === 'README.md')
    const [, command = '', file = ''] =
      /`(npx node \S+ (\S+\.ts))`/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? []
    writeFileSync(join(folder, file), program?.code.replace('port: 3000', 'port: 0') ?? '')
    await using running = await runProgram(command, folder)
    const answer = await fetch(`${running.url}/tides/next?harbour=Lamu`)
    expect(await answer.json()).toEqual({ harbour: 'Lamu', inMinutes: 90 })
  }, 60_000)

  it('links only to pages that exist', () => {
    for (const page of pages)
      for (const [, target] of readFileSync(join(root, page), 'utf8').matchAll(
        /\]\((?!https?:|#)([^)#]+)/g,
      ))
        expect(
          () => readFileSync(resolve(root, dirname(page), target!)),
          `${page} -> ${target}`,
        ).not.toThrow(/ENOENT/)
  })
})
