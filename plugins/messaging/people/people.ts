import { randomInt } from 'node:crypto'
import { RuntimeError } from '#core'
import type { Seal } from '../device/sealing.ts'
import { type MessagingEnv, serverOf } from '../environment.ts'
import type { MessagingDatabase } from '../tables.ts'

/** Whose words a message is. */
export interface Speaker {
  readonly did: string
  /** An account that nobody has linked to a DID of their own. */
  readonly isGuest: boolean
}

/** What links and guests are kept with. */
export interface PeopleOptions {
  readonly env: MessagingEnv
  readonly db: MessagingDatabase
  readonly seal: Seal
  readonly environment: 'development' | 'test' | 'production'
  readonly now: () => Date
}

/** What became of a code that a person wrote. */
export type Linked = { readonly did: string } | 'wrong' | 'resting'

/** Letters and digits that nobody takes for another. */
const signs = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'
const codeLength = 8
const codeLifeMs = 10 * 60_000
const tries = { most: 5, restMs: 60 * 60_000 }
/** How many codes of one DID are open at once. */
const mostCodes = 5
const mostLinks = 20

/** Who the accounts of the messaging server are: by link, by their name, or as guests. */
export class People {
  readonly #options: PeopleOptions

  constructor(options: PeopleOptions) {
    this.#options = options
  }

  async speakerOf(account: string): Promise<Speaker> {
    const { db, seal } = this.#options
    const link = await db
      .selectFrom('messaging_links')
      .select('did')
      .where('account', '=', account)
      .executeTakeFirst()
    if (link) return { did: link.did, isGuest: false }
    const named = this.didInName(account)
    if (named !== undefined) return { did: named, isGuest: false }
    return { did: `did:guest:${seal.mac('guest', account).slice(0, 40)}`, isGuest: true }
  }

  /** Every account that speaks for a DID: those that were linked, and those whose name says so. */
  async speaking(did: string): Promise<string[]> {
    const named = this.#didServers.map((server) => `@${did.replaceAll(':', '-')}:${server}`)
    const own = []
    for (const account of named) if ((await this.speakerOf(account)).did === did) own.push(account)
    return [...(await this.accountsOf(did)), ...own]
  }

  /** Servers that give `@did-ixo-<address>` to that DID's holder alone. */
  get #didServers(): readonly string[] {
    const { env, environment } = this.#options
    const own = serverOf(env.MATRIX_ORACLE_ADMIN_USER_ID)
    return env.MESSAGING_DID_SERVERS ?? (environment === 'production' ? [] : [own])
  }

  /** The DID in an account's name, where its server gives such names to that DID's holder alone. */
  didInName(account: string): string | undefined {
    const [, address, server = ''] = /^@did-ixo-([a-z0-9]{1,100}):(.+)$/.exec(account) ?? []
    return address !== undefined && this.#didServers.includes(server)
      ? `did:ixo:${address}`
      : undefined
  }

  /** A code that links the account of whoever writes it in a direct room. */
  async newCode(did: string): Promise<{ code: string; expiresAt: Date }> {
    const { db, seal, now } = this.#options
    const at = now().getTime()
    await db.deleteFrom('messaging_codes').where('expires_at', '<=', at).execute()
    const open = await db
      .selectFrom('messaging_codes')
      .select('hash')
      .where('did', '=', did)
      .orderBy('expires_at')
      .execute()
    for (const { hash } of open.slice(0, Math.max(0, open.length - mostCodes + 1)))
      await db.deleteFrom('messaging_codes').where('hash', '=', hash).execute()
    const code = Array.from({ length: codeLength }, () => signs[randomInt(signs.length)]).join('')
    const expiresAt = at + codeLifeMs
    const hash = seal.mac('code', code)
    await db.insertInto('messaging_codes').values({ hash, did, expires_at: expiresAt }).execute()
    return { code, expiresAt: new Date(expiresAt) }
  }

  /** Links an account by a code, once. Five wrong codes are followed by an hour without any. */
  async useCode(account: string, code: string): Promise<Linked> {
    const { db, seal, now } = this.#options
    const at = now().getTime()
    return db.transaction().execute(async (trx) => {
      const tried = await trx
        .selectFrom('messaging_tries')
        .selectAll()
        .where('account', '=', account)
        .executeTakeFirst()
      const isOver = tried !== undefined && tried.until <= at
      const wrong = tried && !isOver ? Number(tried.wrong) : 0
      if (wrong >= tries.most) return 'resting'
      const used = await trx
        .deleteFrom('messaging_codes')
        .where('hash', '=', seal.mac('code', code.toUpperCase()))
        .where('expires_at', '>', at)
        .returning('did')
        .executeTakeFirst()
      if (used) {
        await trx.deleteFrom('messaging_tries').where('account', '=', account).execute()
        await link(trx, { account, did: used.did, by: 'code', at })
        return { did: used.did }
      }
      const next = { wrong: wrong + 1, until: at + tries.restMs }
      await trx
        .insertInto('messaging_tries')
        .values({ account, ...next })
        .onConflict((on) => on.column('account').doUpdateSet(next))
        .execute()
      return 'wrong'
    })
  }

  /** Links an account whose holder has proved it. */
  async link(account: string, did: string): Promise<void> {
    const { db, now } = this.#options
    await db
      .transaction()
      .execute((trx) => link(trx, { account, did, by: 'openid', at: now().getTime() }))
  }

  /** Ends a link; false where there was none. */
  async unlink(account: string, did?: string): Promise<boolean> {
    const ending = this.#options.db.deleteFrom('messaging_links').where('account', '=', account)
    const gone = did === undefined ? ending : ending.where('did', '=', did)
    return (await gone.returning('account').execute()).length > 0
  }

  /** The accounts of a DID that were linked. */
  async accountsOf(did: string): Promise<string[]> {
    const rows = await this.#options.db
      .selectFrom('messaging_links')
      .select('account')
      .where('did', '=', did)
      .orderBy('account')
      .execute()
    return rows.map(({ account }) => account)
  }
}

interface NewLink {
  readonly account: string
  readonly did: string
  readonly by: 'code' | 'openid'
  readonly at: number
}

async function link(trx: MessagingDatabase, { account, did, by, at }: NewLink): Promise<void> {
  const { count } = await trx
    .selectFrom('messaging_links')
    .select((of) => of.fn.countAll().as('count'))
    .where('did', '=', did)
    .where('account', '!=', account)
    .executeTakeFirstOrThrow()
  if (Number(count) >= mostLinks)
    throw new RuntimeError('CONFLICT', `A DID has ${mostLinks} accounts at most.`, {
      hint: 'End another link first.',
    })
  await trx
    .insertInto('messaging_links')
    .values({ account, did, by, at })
    .onConflict((on) => on.column('account').doUpdateSet({ did, by, at }))
    .execute()
}
