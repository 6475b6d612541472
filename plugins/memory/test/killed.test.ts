import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { type Caller, callerOf } from '../../../test/support/caller.ts'
import { type Child, killChildren, startChild } from '../../../test/support/child.ts'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import type { Fate } from '../../../test/support/remembering-server.ts'

afterAll(killChildren)
const patient = { timeout: 120_000, interval: 100 }
/** With CHAOS_MEMORY=1 the process dies after every single statement that writes, which takes ten minutes or more. */
const isLong = process.env.CHAOS_MEMORY === '1'
const longestMs = 300_000

/** A word that stands nowhere else, in letters. */
const newWord = () =>
  `z${[...randomBytes(12)].map((byte) => String.fromCharCode(97 + (byte % 26))).join('')}`

/** A process with memory, and somebody who talks to it. */
class Person {
  readonly word = newWord()
  readonly #caller: Caller
  #url: string
  #session = ''

  private constructor(caller: Caller, url: string) {
    this.#caller = caller
    this.#url = url
  }

  static async of(url: string): Promise<Person> {
    const person = new Person(await callerOf(url), url)
    await person.ask('PUT', '/memory/settings', { mode: 'on' })
    person.#session = (await person.ask('POST', '/sessions', {})).sessionId
    return person
  }

  // any: a test states what it expects of the value, and fails when the value is another
  async ask(method: string, path: string, body?: unknown): Promise<any> {
    const answer = await fetch(this.#url + path, {
      method,
      headers: { ...(await this.#caller.headers()), 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return answer.json()
  }

  say = (message: string) =>
    this.ask('POST', `/messages/${this.#session}`, { message, stream: false })

  /** Goes on with the process that has taken the place of the dead one, once what was left is done. */
  async goesOn(url: string): Promise<void> {
    this.#url = url
    const run = async () => (await this.ask('GET', `/sessions/${this.#session}/run`)).run
    await expect.poll(run, patient).toBeNull()
  }

  /** What is remembered, with what was and the number of places where it was said. */
  async known(): Promise<[text: string, places: number, holds: boolean][]> {
    const { memories } = await this.ask('GET', '/memory/export')
    return memories.map((one: { text: string; sources: unknown[]; validTo?: string }) => [
      one.text,
      one.sources.length,
      one.validTo === undefined,
    ])
  }

  /** Says where the person lives, and waits until that was noticed: everything that was said before has been read by then. */
  async livesIn(town: string): Promise<void> {
    await this.say(`I live in ${town}.`)
    const texts = async () => (await this.known()).map(([text]) => text)
    await expect.poll(texts, patient).toContain(`lives in ${town}`)
  }

  /** Everything that the oracle shows of a word. */
  async shown(): Promise<string> {
    const found = await Promise.all([
      this.ask('GET', '/memory/export'),
      this.ask('GET', `/memory?history=true&query=${this.word}`),
      this.ask('GET', '/memory?history=true'),
    ])
    return JSON.stringify(found)
  }

  forgetSession = () => this.ask('DELETE', `/sessions/${this.#session}`)
}

/** What a process is doing when it dies, the statements after which it dies, and what must hold in the end. */
interface Work {
  readonly dies: readonly string[]
  begin?(person: Person): Promise<unknown>
  /** Whether the person says it once more where the process was dead before it heard anything. */
  readonly isSaidAgain?: boolean
  go(person: Person): Promise<unknown>
  /** The step by which the work is done, and the one that comes last, as patterns. */
  readonly done: string
  readonly last: string
  /** `isDone` where the process died once the work was committed. */
  check(person: Person, isDone: boolean): Promise<void>
}
const committed = '^commit of .*'
/** A turn is over for memory once it has been read. */
const read = `${committed}update "memory_passages" set "read_at"`
const kept = `${committed}insert into "memory_memories"`
const gone = `${committed}delete from "memory_memories"`

const works: Readonly<Record<string, Work>> = {
  'a turn and the job that reads it': {
    dies: [
      '^insert into memory_spoken',
      `${committed}insert into "memory_passages"`,
      '^update "memory_passages" set "read_at"',
      '^insert into "memory_sources"',
      kept,
    ],
    done: kept,
    last: read,
    isSaidAgain: true,
    go: (person) => person.say(`I live in ${person.word}.`),
    async check(person) {
      await expect
        .poll(() => person.known(), patient)
        .toEqual([[`lives in ${person.word}`, 1, true]])
      await person.livesIn('Ndola')
      expect(await person.known()).toEqual([
        [`lives in ${person.word}`, 1, false],
        ['lives in Ndola', 1, true],
      ])
    },
  },
  remember: {
    dies: ['^insert into memory_writes', '^insert into "memory_sources"', kept],
    done: kept,
    last: read,
    go: (person) => person.say(`Please remember that I like ${person.word}`),
    async check(person, isDone) {
      const text = `likes ${person.word}`
      if (isDone) expect(await person.known()).toEqual([[text, 1, true]])
      else if ((await person.known()).length === 0)
        await person.say(`Please remember that I like ${person.word}`)
      await person.livesIn('Ndola')
      expect(await person.known()).toEqual([
        [text, expect.any(Number), true],
        ['lives in Ndola', 1, true],
      ])
    },
  },
  forget: {
    dies: ['^delete from "memory_memories"', '^update "memory_passages" set "words"', gone],
    done: gone,
    last: read,
    async begin(person) {
      await person.say(`Please remember that I like ${person.word}`)
      await person.livesIn('Kitwe')
    },
    go: (person) => person.say('Forget m1'),
    async check(person, isDone) {
      if (!isDone && (await person.shown()).includes(person.word)) {
        // Not half of it went.
        expect(await person.known()).toContainEqual([`likes ${person.word}`, 1, true])
        await person.say('Forget m1')
      }
      expect(await person.shown()).not.toContain(person.word)
      await person.livesIn('Ndola')
      expect(await person.shown()).not.toContain(person.word)
    },
  },
  'erasing by the route': {
    dies: ['^delete from "memory_memories"', gone],
    done: gone,
    last: gone,
    begin: async (person) => {
      const { id } = await person.ask('POST', '/memory', { text: `keeps the ${person.word}` })
      ids.set(person, id)
    },
    go: (person) => person.ask('DELETE', `/memory/${ids.get(person)}`),
    async check(person, isDone) {
      expect((await person.shown()).includes(person.word)).toBe(!isDone)
      // What the dead process could not do any more, the next one does when it begins.
      if (isDone) expect(bytes()).not.toContain(person.word)
      else await person.ask('DELETE', `/memory/${ids.get(person)}`)
      expect(await person.shown()).not.toContain(person.word)
      expect(bytes()).not.toContain(person.word)
    },
  },
}
const ids = new WeakMap<Person, string>()
const stepOf = (pattern: string) => new RegExp(pattern.replace('^', '^step '), 'i')
let bytes = () => ''

await onEachDatabase('a process that dies', ({ databaseUrl }) => {
  const folder = mkdtempSync(join(tmpdir(), 'memory-killed-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const settings = databaseUrl === undefined ? { dataDir: folder } : { databaseUrl }
  let server: { child: Child; url: string } | undefined
  const start = async () => {
    const child = startChild('./remembering-server.ts', [JSON.stringify(settings)])
    const [url = ''] = await child.printed(1)
    return (server = { child, url })
  }
  const files = () =>
    readdirSync(folder)
      .filter((file) => file.startsWith('oracle.sqlite'))
      .map((file) => readFileSync(join(folder, file), 'latin1'))
      .join('\n')

  const begin = async (work: Work, fate: Fate) => {
    bytes = files
    const { child, url } = server ?? (await start())
    const person = await Person.of(url)
    await work.begin?.(person)
    const before = child.lines.length
    child.process.stdin?.write(`${JSON.stringify(fate)}\n`)
    await child.printed(before + 1)
    return { child, person, before }
  }
  /** Resolves to whether a process prints a line, from one of its lines on; false where it dies before. */
  const prints = async (child: Child, from: number, line: RegExp): Promise<boolean> => {
    for (let seen = from; ;) {
      const more = child.lines.slice(seen)
      if (more.some((one) => line.test(one))) return true
      seen += more.length
      if (!(await child.printed(seen + 1).catch(() => undefined))) return false
    }
  }
  /** Resolves to whether the process died in the work; where it came to fewer steps than before, it is told not to die any more. */
  const dieIn = async (work: Work, fate: Fate): Promise<boolean> => {
    const { child, person, before } = await begin(work, fate)
    const dead = child.ended()
    await work.go(person).catch(() => undefined)
    const isOver = fate.after === undefined && (await prints(child, before, stepOf(work.last)))
    if (isOver) child.process.stdin?.write('{}\n')
    const isDead = !isOver || !(await prints(child, before + 1, /^armed/))
    if (isDead) {
      expect(await dead).toBeNull()
      await person.goesOn((await start()).url)
      if (fate.dies === 0 && work.isSaidAgain) await work.go(person)
    }
    const isDone = child.lines.slice(before).some((line) => stepOf(work.done).test(line))
    await work.check(person, isDone)
    return isDead
  }

  for (const [name, work] of Object.entries(works))
    for (const after of work.dies)
      it(`in ${name}, after ${after}`, { timeout: longestMs }, async () => {
        expect(await dieIn(work, { after, dies: 1 })).toBe(true)
      })

  if (isLong)
    it.each(Object.keys(works))(
      'in %s, before and after each statement that writes',
      { timeout: 3_600_000 },
      async (name) => {
        const work = works[name]
        if (!work) return
        const { child, person, before } = await begin(work, {})
        await work.go(person)
        expect(await prints(child, before, stepOf(work.last))).toBe(true)
        const count = child.lines.length - before - 1
        expect(count).toBeGreaterThan(4)
        await work.check(person, true)
        const died: boolean[] = []
        for (let dies = 0; dies <= count; dies++) died.push(await dieIn(work, { dies }))
        // A run has as many steps as the one before, but for what two jobs at once may add or spare.
        expect(died.filter((one) => one).length).toBeGreaterThanOrEqual(count - 2)
      },
    )
})
