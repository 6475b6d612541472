import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { floors, roomOf } from './support/floors.ts'

interface Named {
  /** A function, a class, or `Class.method`. */
  readonly name: string
  readonly file: string
}

/** Every `name` — `file` of a text, in order. */
const namesIn = (text: string): Named[] =>
  [...text.matchAll(/`([\w.#]+)` —\s+`([\w./-]+\.tsx?)`/g)].map(([, name = '', file = '']) => ({
    name,
    file,
  }))

const page = (path: string) => readFileSync(path, 'utf8')
/** What stands under a heading, up to the next one of its level. */
const section = (text: string, heading: string): string => {
  const [, level = ''] = /^(#+) /.exec(heading) ?? []
  const [, rest = ''] = text.split(`\n${heading}\n`)
  return rest.split(new RegExp(`^#{1,${level.length}} `, 'm'))[0] ?? ''
}

const declares = (source: string, name: string) =>
  new RegExp(`\\b(?:function\\*?|class|const) ${name}\\b`).test(source)
const exports = (source: string, name: string) =>
  new RegExp(`^export (?:async |abstract )*(?:function\\*?|class|const) ${name}\\b`, 'm').test(
    source,
  )
const hasMember = (source: string, type: string, member: string) => {
  const [, body = ''] =
    new RegExp(`^export (?:abstract )?class ${type}\\b(.*?)^}`, 'ms').exec(source) ?? []
  return new RegExp(
    `^  (?:(?:readonly|static|async|override|get) |\\*)*${member}\\b ?[(<:=]`,
    'm',
  ).test(body)
}

/** Why a name is not where a page says it is. */
function fault({ name, file }: Named, mustBeExported: boolean): string | undefined {
  if (!existsSync(file)) return `${file} is no file (looked for ${name})`
  const source = readFileSync(file, 'utf8')
  const [first = '', member] = name.split('.')
  const found =
    member !== undefined
      ? hasMember(source, first, member)
      : mustBeExported
        ? exports(source, first)
        : declares(source, first)
  return found ? undefined : `${file} ${mustBeExported ? 'does not export' : 'has no'} ${name}`
}

const architecture = page('docs/architecture.md')
const contributing = page('CONTRIBUTING.md')

describe('docs/architecture.md', () => {
  it('draws every room on the floor where the table has it', () => {
    const [, drawing = ''] = /```text\n(.*?)```/s.exec(section(architecture, '## The floors')) ?? []
    const [top = '', ...lines] = drawing
      .trimEnd()
      .split('\n')
      .map((line) => line.slice(20))
    expect(top).toContain('app.ts')
    const drawn = lines.map((line) => line.trim().split(/\s+/))
    expect([...drawn.reverse(), ['']]).toEqual(floors)
  })

  it.each(['## A chat turn', '## A USSD post', '## A boot', '## A token to `ctx.user`'])(
    '%s: names what its files export',
    (heading) => {
      const walk = section(architecture, heading)
      const names = namesIn(walk)
      expect(names.length).toBeGreaterThan(8)
      for (const step of walk.split('\n').filter((line) => /^ *(?:\d+\.|-) /.test(line)))
        expect(namesIn(step), step).toHaveLength(1)
      expect(names.flatMap((named) => fault(named, true) ?? [])).toEqual([])
    },
  )

  it.each(['### In', '### Out'])('a chat turn enters each room once: %s', (heading) => {
    const steps = section(section(architecture, '## A chat turn'), heading)
    const numbered = steps.split('\n').filter((line) => /^\d+\. /.test(line))
    const rooms = namesIn(numbered.join('\n')).map(({ file }) => roomOf(file))
    const stretches = rooms.filter((room, at) => room !== rooms[at - 1])
    expect(stretches.length).toBeGreaterThan(5)
    expect(stretches).toEqual([...new Set(stretches)])
  })

  it('a name that is not there is found', () => {
    const file = 'core/runtime/turns/carry/runs.ts'
    expect(fault({ name: 'Runs.send', file }, true)).toBeUndefined()
    expect(fault({ name: 'Runs.nothing', file }, true)).toBe(`${file} does not export Runs.nothing`)
    expect(fault({ name: 'closeGraceMs', file }, true)).toBe(`${file} does not export closeGraceMs`)
    expect(fault({ name: 'closeGraceMs', file }, false)).toBeUndefined()
    expect(fault({ name: 'x', file: 'core/x.ts' }, true)).toContain('is no file')
  })
})

describe('CONTRIBUTING.md', () => {
  it('has every room of the runtime in its table, and no folder that is not there', () => {
    const table = section(contributing, '## Where things are')
    const paths = [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, path = '']) => path)
    for (const room of floors.flat())
      if (room !== '') expect(paths).toContain(`core/runtime/${room}/`)
    for (const path of paths) expect(existsSync(path.replace(/<.*$/, '')), path).toBe(true)
  })

  it('answers where to look by functions that are there', () => {
    const answers = section(contributing, '## Where to look')
      .split(/^- \*\*/m)
      .slice(1)
    expect(answers.length).toBeGreaterThanOrEqual(12)
    for (const answer of answers) {
      const names = namesIn(answer)
      expect(names.length, answer).toBeGreaterThan(0)
      expect(names.flatMap((named) => fault(named, false) ?? [])).toEqual([])
    }
  })
})
