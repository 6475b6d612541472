import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { practiseReading } from '../../core/runtime/auth/token/practice.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'pieces-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const module = new URL('../../core/runtime/idle/import-in-pieces.ts', import.meta.url).href

/** Writes files, each of which says its name when it is evaluated. */
function write(files: Readonly<Record<string, string>>): void {
  for (const [name, source] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), `${source}\nglobalThis.order.push('${name}')\n`)
  }
}

/** What is evaluated in which order, in a process of its own; `turn` stands where the process could do other work. */
function order(names: readonly string[], { goesOn = 'true', slow = false } = {}): string[] {
  const program = `
    globalThis.order = []
    globalThis.busy = () => { const end = performance.now() + 6; while (performance.now() < end); }
    const { importInPieces } = await import(${JSON.stringify(module)})
    const tick = setInterval(() => globalThis.order.push('turn'), 1)
    await importInPieces(${JSON.stringify(names)}, ${JSON.stringify(pathToFileURL(join(folder, 'root.mjs')))}, () => ${goesOn})
    clearInterval(tick)
    console.log(JSON.stringify(globalThis.order))`
  const told = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  })
  const all = (JSON.parse(told) as string[]).filter((name, nth, list) => name !== list[nth - 1])
  return slow ? all : all.filter((name) => name !== 'turn')
}

it('each file is imported by itself, after what it imports, and the process does other work between two', () => {
  write({
    'a.mjs': `import { b } from './b.mjs'\nimport './c.mjs'\nglobalThis.busy()`,
    'b.mjs': `export { c as b } from './c.mjs'\nglobalThis.busy()`,
    'c.mjs': `export const c = 1\nglobalThis.busy()`,
  })
  const seen = order(['./a.mjs'], { slow: true })
  expect(seen.filter((name) => name !== 'turn')).toEqual(['c.mjs', 'b.mjs', 'a.mjs'])
  expect(seen.slice(seen.indexOf('c.mjs'), seen.indexOf('b.mjs'))).toContain('turn')
  expect(seen.slice(seen.indexOf('b.mjs'), seen.indexOf('a.mjs'))).toContain('turn')
})

it('files that import each other, one that is missing and one that throws stop nothing', () => {
  write({
    'a.mjs': `import { B } from './b.mjs'\nclass A extends B {}`,
    // Entered by this file, the circle would evaluate the other one first, which then finds no such class yet.
    'b.mjs': `import './a.mjs'\nimport './inner.mjs'\nexport class B {}`,
    'inner.mjs': `import './b.mjs'`,
    'throws.mjs': `throw new Error('on import')`,
    'last.mjs': `import './inner.mjs'`,
  })
  expect(order(['./a.mjs', './missing.mjs', './throws.mjs', './last.mjs'])).toEqual([
    'inner.mjs',
    'b.mjs',
    'a.mjs',
    'last.mjs',
  ])
})

it('what is a type, a word in a text, or imported when it is asked for, is not imported', () => {
  write({
    'a.mts': [
      `import type { T } from './type.mjs'`,
      `const text = "\\n  import './text.mjs'"`,
      `export const later = () => import('./later.mjs')`,
      `import { type T as Other, b } from './b.mjs'`,
      `export const c: T = text + b`,
    ].join('\n'),
    'b.mjs': `export const b = 1`,
    'type.mjs': '',
    'text.mjs': '',
    'later.mjs': '',
  })
  expect(order(['./a.mts'])).toEqual(['b.mjs', 'a.mts'])
})

it('a package that the importer finds elsewhere than the runtime is left to the importer', () => {
  write({
    'a.mjs': `import 'zod'`,
    'node_modules/zod/index.js': '',
  })
  writeFileSync(
    join(folder, 'node_modules/zod/package.json'),
    JSON.stringify({ name: 'zod', type: 'module', exports: './index.js' }),
  )
  // Node itself imports the copy of the importer with the importer: the runtime's own would be a second one.
  expect(order(['./a.mjs', 'zod', 'no-such-package', 'node:fs', '#inside'])).toEqual([
    'node_modules/zod/index.js',
    'a.mjs',
  ])
})

it('nothing more is imported once the process ends', () => {
  write({ 'a.mjs': `import './b.mjs'`, 'b.mjs': '' })
  expect(order(['./a.mjs'], { goesOn: 'false' })).toEqual([])
})

it('the token that is read for practice is read to its end', () => {
  expect(practiseReading).not.toThrow()
})
