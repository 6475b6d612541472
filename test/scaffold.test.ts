import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '..')

describe('npm run new:plugin', () => {
  let folder: string
  const run = (script: string, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', join(root, script), ...args],
      { cwd: folder, encoding: 'utf8', env: { ...process.env, FORCE_COLOR: '0' } },
    )
    return { status, output: stdout + stderr }
  }

  beforeAll(() => {
    folder = mkdtempSync(join(root, '.scaffold-')) // inside the project, so that #core resolves
    mkdirSync(join(folder, 'plugins'))
    cpSync(join(root, 'plugins/index.ts'), join(folder, 'plugins/index.ts'))
    cpSync(join(root, 'plugins/weather'), join(folder, 'plugins/weather'), { recursive: true })
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('makes a plugin that passes its tests, type-checks and lacks nothing', () => {
    expect(run('scripts/new-plugin.ts', 'bird-songs')).toMatchObject({ status: 0 })
    const listed = readFileSync(join(folder, 'plugins/index.ts'), 'utf8')
    expect(listed).toMatch(/bundled = \[.*\n  birdSongs,\n.*\n  weather,\n\]/s)
    expect(listed).toContain("ai-sdk/index.ts'\nimport birdSongs from './bird-songs/index.ts'\n")
    // The files are as `npm run format` leaves them.
    cpSync(join(root, '.prettierrc.json'), join(folder, '.prettierrc.json'))
    const made = ['plugins/index.ts', 'plugins/bird-songs']
    expect(run('node_modules/prettier/bin/prettier.cjs', '--check', ...made)).toMatchObject({
      status: 0,
    })

    const tests = run(
      'node_modules/vitest/vitest.mjs',
      'run',
      '--root',
      folder,
      '--config',
      join(root, 'vitest.config.ts'),
      'bird-songs',
    )
    expect(tests.output).toMatch(/3 passed, 0 failed/)

    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: '../tsconfig.json', include: ['plugins/bird-songs'] }),
    )
    expect(run('node_modules/typescript/bin/tsc', '-p', folder)).toEqual({ status: 0, output: '' })

    expect(run('cli/main.ts', 'check:plugin', 'plugins/bird-songs')).toEqual({
      status: 0,
      output: 'bird-songs: nothing is missing.\n',
    })
  }, 120_000)

  it('imports a plugin whose name is a word of the language by another word', () => {
    expect(run('scripts/new-plugin.ts', 'class')).toMatchObject({ status: 0 })
    const line = /^import classPlugin from '\.\/(class\/)?index\.ts'$/m
    for (const file of ['index.ts', 'class/class.test.ts'])
      expect(readFileSync(join(folder, 'plugins', file), 'utf8')).toMatch(line)
  })

  it('refuses a name that is taken, and one that is no name', () => {
    expect(run('scripts/new-plugin.ts', 'weather')).toMatchObject({
      status: 1,
      output: expect.stringContaining('exists already'),
    })
    for (const name of ['Bird', '../up', 'a b', '', 'a--b', '-a'])
      expect(run('scripts/new-plugin.ts', name)).toMatchObject({
        status: 1,
        output: expect.stringContaining('is not a plugin name'),
      })
  })

  it('check:plugin names what a bare plugin lacks', () => {
    const bare = join(folder, 'plugins/bare')
    mkdirSync(bare)
    writeFileSync(
      join(bare, 'index.ts'),
      `import { z } from 'zod'
import { definePlugin } from '#core'
export default definePlugin({
  name: 'bare', summary: 'Bare.',
  env: { BARE_KEY: z.string().optional() },
  migrations: { '001-rows': (db) => db.schema.createTable('bare_rows').addColumn('did', 'text').execute() },
  tools: { bare_tool: { description: 'x', input: z.object({}), run: () => 1 } },
  routes: { 'GET /bare/:id': { run: ({ id }) => id } },
})
`,
    )
    const { status, output } = run('cli/main.ts', 'check:plugin', 'plugins/bare')
    expect(status).toBe(1)
    for (const finding of [
      'whenToUse',
      'examples',
      'category',
      'stability',
      'no test beside',
      'README',
      'bare_tool',
      'GET /bare/:id',
      'BARE_KEY',
      'The table bare_rows has a column "did", and there is no "userData"',
    ])
      expect(output).toContain(finding)
  })

  it('check:plugin says what to name when nothing is there', () => {
    expect(run('cli/main.ts', 'check:plugin', 'plugins/nothing')).toMatchObject({ status: 2 })
  })
})
