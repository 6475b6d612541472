import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { type MessagingProcess, MessagingScene } from '../../../test/support/messaging-process.ts'
import { oracleId, oraclePassword } from '../../../test/support/open-oracle.ts'
import { random } from '../../../test/support/random.ts'
import { keyFor } from '../device/secret-storage.ts'
import type { Person } from '../testing/person.ts'

const words = Array.from({ length: 24 }, (_, n) => `word${n}`).join(' ')
const whole = (n: number | string) => `${words} and that was question ${n}.`

const moments = [
  'before the row',
  'after the row',
  'after the run began',
  'after the first send',
  'before the final edit',
  'after the final edit',
  'in the write',
]
/** How often a process is ended at a random moment. More than a suite has time for: MESSAGING_KILLS=30. */
const isThorough = process.env.MESSAGING_KILLS !== undefined
const kills = Number(process.env.MESSAGING_KILLS ?? 3)

await onEachDatabase('kill -9', ({ databaseUrl }) => {
  let scene: MessagingScene
  let oracle: MessagingProcess
  let ann: Person
  beforeAll(async () => {
    scene = await MessagingScene.open(databaseUrl)
    oracle = scene.oracle()
    await oracle.start()
    ann = await scene.person('ann')
  }, 90_000)
  afterAll(() => scene.close(), 60_000)

  /** Rows of a query, on the database of this suite. */
  const rows = async (query: string): Promise<Record<string, unknown>[]> => {
    if (databaseUrl !== undefined) {
      const client = new pg.Client(databaseUrl)
      await client.connect()
      try {
        return (await client.query(query)).rows
      } finally {
        await client.end()
      }
    }
    const [file = ''] = (await readdir(scene.folder)).filter((name) =>
      /\.(?:db|sqlite)$/.test(name),
    )
    const db = new DatabaseSync(join(scene.folder, file), { readOnly: true })
    try {
      return db.prepare(query).all()
    } finally {
      db.close()
    }
  }

  // What a process does is the same on both databases, and a start takes seconds: the points on one, the moments on the other.
  const onOne = databaseUrl === undefined || isThorough
  const onOther = databaseUrl !== undefined || isThorough

  describe.runIf(onOne)('at each point of a message', () => {
    let room: string
    const asked: string[] = []
    const opened: string[] = []
    beforeAll(async () => {
      room = await scene.directRoom(ann)
    })

    /** Asks in the room, and keeps what was asked: a test that is tried again asks something new. */
    const ask = async (writes = false): Promise<string> => {
      const name = String(asked.length)
      asked.push(name)
      if (writes) opened.push(`door${name}`)
      await ann.say(room, `question ${name}${writes ? `, open the door${name} door` : ''}`)
      return name
    }

    it.each(moments)(
      '%s, leaves the answer to the next process',
      async (moment) => {
        if (oracle.hasEnded) await oracle.start()
        await oracle.endAt(moment)
        const name = await ask(moment === 'in the write')
        expect(await oracle.ended()).toBe('SIGKILL')
        await oracle.start()
        await ann.hears(room, whole(name))
      },
      120_000,
    )

    it('with a turn begun, leaves it as it is: what is written meanwhile is a turn of its own', async () => {
      if (oracle.hasEnded) await oracle.start()
      await oracle.endAt('after the run began')
      const begun = await ask()
      expect(await oracle.ended()).toBe('SIGKILL')
      const later = await ask()
      await oracle.start()
      await ann.hears(room, whole(begun))
      await ann.hears(room, whole(later))
    }, 120_000)

    it('leaves one answer, one run, and one execution of its tool', async () => {
      // What came twice would be answered by now, too.
      await ann.hears(room, whole(await ask()))
      expect(scene.said(ann, room)).toEqual(asked.map(whole))
      expect(scene.doors()).toEqual(opened)
      const runs = await rows(`select count(*) as n from kernel_runs where status <> 'queued'`)
      expect(Number(runs[0]?.n)).toBe(asked.length)
    })
  })

  it(
    'at random moments loses no key: each message in a fresh encryption session is read, once',
    async () => {
      const { integer } = random('kills of a messenger')
      if (oracle.hasEnded) await oracle.start()
      for (let n = 0; n < kills; n++) {
        const [living, dead] = [await scene.directRoom(ann), await scene.directRoom(ann)]
        await ann.say(living, `question ${n}a`)
        await sleep(integer(0, 700))
        await oracle.kill()
        await ann.say(dead, `question ${n}b`)
        await oracle.start()
        await ann.hears(living, whole(`${n}a`))
        await ann.hears(dead, whole(`${n}b`))
        expect(scene.said(ann, living)).toEqual([whole(`${n}a`)])
        expect(scene.said(ann, dead)).toEqual([whole(`${n}b`)])
      }
      expect(scene.server.refused.filter((line) => line.includes('keys/upload'))).toEqual([])
      expect(scene.server.accounts.get(oracleId)?.devices.size).toBe(1)
    },
    60_000 + kills * 60_000,
  )

  it('leaves no token, no password and no private key in the database, and no word in the log', async () => {
    await oracle.kill()
    const kept = await rows('select value from messaging_keys')
    const [account] = await rows('select sealed from messaging_account')
    expect(kept.length).toBeGreaterThan(20)
    const texts = [...kept.map(({ value }) => String(value)), String(account?.sealed)]
    const opened = texts.map((text) => Buffer.from(text, 'base64').toString('latin1'))
    const secrets = [oraclePassword, ...scene.server.accounts.tokensOf(oracleId)]
    expect(secrets.length).toBeGreaterThan(1)
    // The names of the parts of an account and of a session, as the encryption writes them where nothing seals them.
    const parts = ['signing_key', 'diffie_hellman_key', 'private_key', 'sending_ratchet', 'inner']
    const files =
      databaseUrl === undefined
        ? (await readdir(scene.folder)).map((file) =>
            readFileSync(join(scene.folder, file)).toString('latin1'),
          )
        : []
    for (const secret of [...secrets, ...parts])
      for (const text of [...opened, ...texts]) expect(text.includes(secret), secret).toBe(false)
    for (const secret of secrets) {
      for (const text of files) expect(text.includes(secret), secret).toBe(false)
      expect(oracle.printed.includes(secret)).toBe(false)
    }
    expect(oracle.printed).not.toContain('word7')
    expect(oracle.printed).not.toContain('that was question')
  })

  it('leaves the recovery key, which a command shows and the secret storage of the account takes', async () => {
    await oracle.kill()
    const shown = await scene.printedBy('plugins/messaging/cli.ts', 'recovery-key')
    expect(shown).toMatch(/^Es[A-Za-z1-9 ]+\n$/)
    const { data } = scene.server.accounts.get(oracleId) ?? {}
    const info = data?.get(`m.secret_storage.key.${data.get('m.secret_storage.default_key')?.key}`)
    expect(info).toBeDefined()
    const key = await keyFor({ algorithm: '', ...info }, shown.trim())
    expect(key).toHaveLength(32)
  })
})
