import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { AppFolder, runCommandLine } from '../support/command-line.ts'
import { root } from '../support/process.ts'

describe('oracle-runtime init', () => {
  it('makes an app whose new plugin passes its test at once', async () => {
    using above = new AppFolder()
    expect(await above.run(['init', 'my-oracle'])).toMatchObject({ code: 0, err: '' })
    const app = join(above.path, 'my-oracle')
    expect(readdirSync(app).sort()).toEqual(['.gitignore', 'package.json', 'server.ts'])
    symlinkSync(join(above.path, 'node_modules'), join(app, 'node_modules'))
    const made = await runCommandLine(['new', 'field-notes'], app)
    expect(made.out).toContain('server.ts loads it')
    expect(made.code).toBe(0)
    // A word of the language is no name of an import.
    expect((await runCommandLine(['new', 'class'], app)).out).toContain('server.ts loads it')
    const report = JSON.parse((await runCommandLine(['inspect', '--json'], app)).out)
    expect(report.plugins.map(({ name }: { name: string }) => name).sort()).toEqual([
      'class',
      'dice',
      'field-notes',
      'playground',
    ])
    const { PATH, HOME } = process.env
    const tests = execFileSync(
      process.execPath,
      [
        '--conditions=oracle-runtime-source',
        '--test',
        'plugins/class/class.test.ts',
        'plugins/field-notes/field-notes.test.ts',
      ],
      { cwd: app, encoding: 'utf8', env: { PATH, HOME } },
    )
    expect(tests).toMatch(/pass 6\b/)
    expect(tests).toMatch(/fail 0\b/)
    // It also has what its users and its readers need.
    const checked = await runCommandLine(['check:plugin', 'plugins/field-notes'], app)
    expect(checked.out).toBe('field-notes: nothing is missing.\n')
  }, 120_000)

  it('refuses a folder that is not empty, and names that are none', async () => {
    using above = new AppFolder()
    mkdirSync(join(above.path, 'full'))
    writeFileSync(join(above.path, 'full/mine'), 'mine')
    const full = await above.run(['init', 'full'])
    expect(full.err).toContain('is not empty')
    expect(full.code).toBe(2)
    expect(readdirSync(join(above.path, 'full'))).toEqual(['mine'])
    for (const name of ['../x', 'a/b', 'x'.repeat(300), 'Big', '', '.']) {
      const { code, err } = await above.run(['init', name])
      expect(err).toContain('is no name for an app')
      expect(code).toBe(2)
    }
  }, 120_000)

  it('new refuses names that are none or taken, and a folder without an app', async () => {
    using app = new AppFolder(readFileSync(join(root, 'examples/minimal/server.ts'), 'utf8'))
    expect((await app.run(['new', '../up'])).err).toContain('is not a plugin name')
    expect((await app.run(['new', 'notes'])).code).toBe(0)
    const again = await app.run(['new', 'notes'])
    expect(again.err).toContain('exists already')
    expect(again.code).toBe(2)
    using none = new AppFolder()
    expect((await none.run(['new', 'notes'])).code).toBe(2)
  }, 120_000)
})
