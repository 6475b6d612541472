import { z } from 'zod'
import { builtView, definePlugin, RuntimeError } from '#core'
import { roomTools } from './answering/sending-files.ts'
import { earlierNames, environment } from './environment.ts'
import { fileOf } from './files.ts'
import { Messaging } from './messaging.ts'
import { accountOfToken, openIdToken } from './people/openid.ts'
import { keepNotice } from './rooms/notices.ts'
import { RoomSessions } from './rooms/room-sessions.ts'
import { pairRoomOf, spacesOf } from './rooms/spaces.ts'
import { migrations, withMessagingTables } from './tables.ts'
import { eraseMessaging, exportMessaging } from './user-data.ts'

const identity = z.object({ userId: z.string(), did: z.string() })
const longestDid = /^did:[a-z0-9]+:[!-~]{1,400}$/
const rowLifeMs = 30 * 86_400_000

export default definePlugin({
  name: 'messaging',
  version: '1.0.0',
  summary: 'Lets people talk to the oracle in Matrix rooms, encrypted and over restarts.',
  whenToUse: ['The person writes from a messenger.'],
  tags: ['messaging', 'matrix', 'rooms', 'chat'],
  visibility: 'always',
  stability: 'experimental',
  category: 'communication',

  env: environment,
  migrations,

  setup({ pending, lease, onClose, health, ...boot }) {
    const { env } = boot
    if (!env.MATRIX_ORACLE_ADMIN_PASSWORD && !env.MATRIX_ORACLE_ADMIN_ACCESS_TOKEN)
      throw new RuntimeError(
        'ENV_MISSING',
        'Plugin messaging env validation failed for MATRIX_ORACLE_ADMIN_PASSWORD.',
        {
          hint: 'Set MATRIX_ORACLE_ADMIN_PASSWORD or MATRIX_ORACLE_ADMIN_ACCESS_TOKEN, or turn the plugin off with FEATURES=messaging=off.',
        },
      )
    const unneeded = earlierNames.filter((name) => env[name] !== undefined)
    if (unneeded.length > 0) boot.log.info(`${unneeded.join(', ')}: set, and not needed any more`)
    const messaging = new Messaging(boot)
    messaging.onFailed = (failed) => pending(failed, () => messaging.sentence())
    pending(messaging.ready, () => messaging.sentence())
    health(() => messaging.check())
    onClose(() => messaging.close())
    messaging.begin((work) => lease('device', work))
    return messaging
  },

  jobs: {
    sweep: {
      every: '6h',
      async run(_, { db, now, sessions }) {
        const tables = withMessagingTables(db)
        const at = now().getTime()
        await new RoomSessions(tables).sweep(sessions, at)
        await tables
          .deleteFrom('messaging_events')
          .where('at', '<', at - rowLifeMs)
          .execute()
        await tables.deleteFrom('messaging_codes').where('expires_at', '<', at).execute()
        await tables.deleteFrom('messaging_tries').where('until', '<', at).execute()
        await tables
          .deleteFrom('messaging_sent')
          .where('at', '<', at - rowLifeMs)
          .execute()
        await tables
          .deleteFrom('messaging_asks')
          .where('at', '<', at - rowLifeMs)
          .execute()
      },
    },
  },

  prompt: (ctx) => (ctx.origin === 'messaging' ? promptOf(ctx.shared) : undefined),

  toolsFor: (ctx) => roomTools(ctx),

  async notices(notice, { self, job, now }) {
    await keepNotice(self, notice, job.key, now().getTime())
    self.desk?.look()
  },

  // `/messaging/…` are routes, so the view stands beside them.
  web: {
    '/messaging-page': builtView(
      '/messaging-page/view.js',
      new URL('./built/view.js', import.meta.url),
    ),
  },
  views: {
    messaging: {
      label: { en: 'Messenger', sw: 'Ujumbe', fr: 'Messagerie' },
      module: '/messaging-page/view.js',
      order: 75,
    },
  },

  attachments: {
    'mxc:': (uri, { self, user, attachment, signal }) =>
      fileOf(self, uri, { did: user.did, attachment, signal }),
  },

  async sessionDeleted({ sessionId }, { db }) {
    await new RoomSessions(withMessagingTables(db)).forget(sessionId)
  },

  async roomIdOf({ did }, { self }) {
    return self.pairRoomId(did)
  },

  userData: {
    export: (did, { db, self }) => exportMessaging(did, db, self.people),
    erase: (did, { db, self }) => eraseMessaging(did, db, self.people),
  },

  routes: {
    'GET /messaging': {
      summary: 'The account of the oracle, and how people link theirs.',
      auth: 'public',
      output: z.object({
        userId: z.string(),
        servers: z.array(z.string()),
        linking: z.array(z.enum(['code', 'openid'])),
      }),
      run: (_, { self }) => self.about(),
    },
    'GET /messaging/status': {
      summary: 'How the account stands on its messaging server; no words, no names.',
      auth: 'operator',
      output: z.object({
        state: z.string(),
        cause: z.string().optional(),
        account: z.string(),
        deviceId: z.string().optional(),
        holder: z.string().optional(),
        since: z.string(),
        lastSync: z.string().optional(),
        rooms: z.number().int().optional(),
        queue: z.number().int().optional(),
        undecryptable: z.number().int().optional(),
        refusedInvitations: z.number().int().optional(),
      }),
      run: (_, { self }) => self.status(),
    },
    'POST /messaging/links': {
      // A link outlives keys and delegations, so neither of them makes one.
      signed: 'self',
      summary: 'A code that links a messaging account to the caller, for ten minutes and once.',
      limit: { max: 10, perMs: 60_000 },
      output: z.object({ code: z.string(), expiresAt: z.string() }),
      async run(_, { self, user }) {
        const { code, expiresAt } = await self.people.newCode(user.did)
        return { code, expiresAt: expiresAt.toISOString() }
      },
    },
    'POST /messaging/identity': {
      signed: 'self',
      summary: 'Links the account of an OpenID token to the caller.',
      input: openIdToken,
      limit: { max: 30, perMs: 60_000 },
      output: identity,
      async run(token, { self, user, env, fetch }) {
        const userId = await accountOfToken(token, env, fetch)
        await self.people.link(userId, user.did)
        return { userId, did: user.did }
      },
    },
    'GET /messaging/rooms': {
      summary: 'The rooms of the caller and the oracle.',
      output: z.object({
        rooms: z.array(
          z.object({
            roomId: z.string(),
            kind: z.enum(['direct', 'group']),
            encrypted: z.boolean(),
            name: z.string().optional(),
          }),
        ),
      }),
      async run(_, { self, user }) {
        return { rooms: await self.roomsOf(user.did) }
      },
    },
    'POST /spaces/source': {
      summary: 'The spaces of the account of a DID on the messaging server.',
      auth: 'public',
      input: z.object({ did: z.string().regex(longestDid) }),
      limit: { max: 10, perMs: 60_000 },
      output: z.object({
        space_id: z.string(),
        subspaces: z.object({ oracles: z.object({ space_id: z.string() }) }),
      }),
      run({ did }, { self }) {
        demandRooms(self)
        return spacesOf(self, did)
      },
    },
    'POST /spaces/oracle/create': {
      summary:
        'The room of a person and the oracle. The token of the messaging account says whose it is.',
      auth: 'public',
      input: z.object({ did: z.string().regex(longestDid), oracleDid: z.string().max(500) }),
      limit: { max: 10, perMs: 60_000 },
      output: z.object({ roomId: z.string() }),
      async run({ did, oracleDid }, { self, koa }) {
        demandRooms(self)
        const token = /^Bearer (\S{1,2000})$/.exec(koa.get('authorization'))?.[1]
        if (token === undefined)
          throw new RuntimeError('UNAUTHORIZED', 'A token of the messaging account is missing.')
        return { roomId: await pairRoomOf(self, self.oracle, { did, oracleDid, token }) }
      },
    },
    'GET /messaging/identity': {
      summary: 'The accounts that are linked to the caller.',
      output: z.object({ accounts: z.array(identity) }),
      async run(_, { self, user: { did } }) {
        const accounts = await self.people.accountsOf(did)
        return { accounts: accounts.map((userId) => ({ userId, did })) }
      },
    },
    'DELETE /messaging/identity/:userId': {
      signed: 'self',
      summary: 'Ends the link of an account of the caller.',
      input: z.object({ userId: z.string().min(3).max(255) }),
      output: z.object({ message: z.string() }),
      async run({ userId }, { self, user }) {
        if (await self.people.unlink(userId, user.did)) return { message: 'The link is ended.' }
        throw new RuntimeError('NOT_FOUND', 'That account is not linked to you.')
      },
    },
  },
})

function demandRooms({ makesRooms }: Messaging): void {
  if (!makesRooms)
    throw new RuntimeError('NOT_FOUND', 'This oracle makes no rooms.', {
      hint: 'The operator sets MESSAGING_ROOMS_BOT=on.',
    })
}

const promptOf = (shared: boolean): string =>
  'The person reads you in a messenger: short paragraphs, Markdown without tables.' +
  (shared ? ' Others read along, so leave out what concerns this person alone.' : '')
