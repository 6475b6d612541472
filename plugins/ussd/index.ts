import { z } from 'zod'
import { builtView, definePlugin, RuntimeError, text } from '#core'
import { callerLimits } from './caller-limits.ts'
import { foreignEntries, isEmptyList } from './gateways.ts'
import { Gateway } from './gateway.ts'
import { configuredAdapters } from './adapters/configured.ts'
import { adapterRoute } from './adapters/route.ts'
import { type Body, phoneIn } from './adapters/translate.ts'
import { isGuestSession, isPhoneSession } from './oracle/oracle.ts'
import { readKey } from './accounts/pins.ts'
import { invalidInput, requestSchema, unavailable, type UssdRequest } from './request.ts'
import { screenName } from './session/engine.ts'
import { migrations } from './tables.ts'

export { defineMenu, end, type Menu, Refusal, type ScreenContext } from './screens/menu.ts'
export type { Catalogue, Catalogues, Language, Values } from './screens/catalogue.ts'

const seconds = (most: number) => z.coerce.number().int().min(0).max(most)
const key = () => z.string().min(32).meta({ secret: true })

/** The instruction that the system prompt of a conversation by phone gets. */
const smallScreen =
  'The user is at a feature phone with screens of 180 letters. Answer in the language of the ' +
  'question, in plain words without markup, in at most three short sentences.'

export default definePlugin({
  name: 'ussd',
  version: '1.0.0',
  summary: 'A session gateway for feature phones: menus over USSD.',
  tags: ['ussd', 'phone', 'menu'],
  visibility: 'silent',
  stability: 'beta',
  category: 'communication',

  env: {
    PIN_ENCRYPTION_KEY: z
      .string()
      .min(32)
      .meta({ secret: true, generate: 'hex32' })
      .transform(readKey)
      .describe('Seals PINs: 64 hex digits, base64 of 32 bytes, or 32 and more characters'),
    PIN_ENCRYPTION_KEY_PREVIOUS: key()
      .transform(readKey)
      .optional()
      .describe('The former key, while it is being replaced'),
    USSD_SESSION_TTL_SECONDS: seconds(3600)
      .min(1)
      .default(180)
      .describe('How long a session may be inactive'),
    USSD_RESUME_SECONDS: seconds(86_400)
      .default(0)
      .describe('How long a redial may go on where the last call stopped; 0: never'),
    USSD_REPLY_BUDGET_MS: z.coerce
      .number()
      .int()
      .min(50)
      .max(30_000)
      .default(3000)
      .describe('How long a screen may take before the phone is told to wait'),
    USSD_RATE_LIMIT_PER_MINUTE: z.coerce
      .number()
      .int()
      .positive()
      .default(100)
      .describe('Requests a minute from one address, at each address of the gateway'),
    USSD_ADAPTERS: z
      .string()
      .transform((list, ctx) => {
        try {
          return configuredAdapters(list)
        } catch (thrown) {
          ctx.addIssue({ code: 'custom', message: thrown instanceof Error ? thrown.message : '' })
          return z.NEVER
        }
      })
      .default([])
      .describe('Aggregators with bodies of their own: names, or paths of JSON files'),
    USSD_TRUSTED_GATEWAYS: z
      .string()
      .default('')
      .refine((list) => foreignEntries(list).length === 0, {
        error: ({ input }) =>
          `neither an address nor a network: ${foreignEntries(String(input)).join(', ')}`,
      })
      .describe('Addresses or networks, with commas between, that are limited per phone number'),
    USSD_TRUSTED_GATEWAYS_ONLY: z
      .stringbool()
      .default(false)
      .describe('Refuse calls from everybody who is not in USSD_TRUSTED_GATEWAYS'),
    USSD_SERVICE_NAME: z
      .string()
      .min(1)
      .max(30)
      .optional()
      .describe('What callers are welcomed to; without it the oracle, in their language'),
  },
  migrations,

  setup(boot) {
    const { USSD_TRUSTED_GATEWAYS: list, USSD_TRUSTED_GATEWAYS_ONLY: only } = boot.env
    if (only && isEmptyList(list))
      throw new RuntimeError(
        'ENV_INVALID',
        'USSD_TRUSTED_GATEWAYS_ONLY is true and USSD_TRUSTED_GATEWAYS lists nobody.',
        { hint: 'List the addresses of your gateway, with commas between.' },
      )
    const gateway = new Gateway(boot)
    boot.onClose(() => gateway.close())
    return gateway
  },

  middleware: {
    async model(ctx, next) {
      if (!isPhoneSession(ctx.session.id)) return next()
      const [first, ...rest] = ctx.request.messages
      if (first?.role === 'system')
        ctx.request = {
          ...ctx.request,
          messages: [{ ...first, content: `${first.content}\n\n${smallScreen}` }, ...rest],
        }
      return next()
    },

    async tool(call, ctx, next) {
      if (call.effect === 'write' && isGuestSession(ctx.session.id))
        throw new RuntimeError(
          'FORBIDDEN',
          'Over USSD only callers who have logged in may do this.',
          {
            hint: 'Ask the caller to log in under "Account" first.',
          },
        )
      return next()
    },
  },

  web: {
    '/phone-page': builtView('/phone-page/view.js', new URL('./built/view.js', import.meta.url)),
  },
  views: {
    phone: {
      label: { en: 'Phone', sw: 'Simu ya USSD', fr: 'Téléphone' },
      module: '/phone-page/view.js',
      order: 20,
    },
  },

  userData: {
    async *export(did, { db }) {
      const { exportUssd } = await import('./user-data.ts')
      yield* exportUssd(did, db)
    },
    erase: async (did, { db }) => (await import('./user-data.ts')).eraseUssd(did, db),
  },

  routes: ({ env, self }) => {
    const perAddress = { max: env.USSD_RATE_LIMIT_PER_MINUTE, perMs: 60_000 }
    const perCaller = callerLimits(env)
    const { aggregators } = self
    return {
      ...Object.fromEntries(
        env.USSD_ADAPTERS.map((adapter) => [
          `POST /api/ussd/${adapter.name}` as const,
          {
            ...adapterRoute(adapter, aggregators),
            limit: perCaller((body) => phoneIn(adapter, body as Body)), // the route's schema has parsed the body
          },
        ]),
      ),

      'POST /api/ussd': {
        auth: 'public',
        // Only telecom gateways call this route. A page of another site must not be able to send inputs in the name of a phone.
        cors: false,
        summary: 'One input of a phone, as a telecom gateway hands it over.',
        answers: { 200: ['text/plain'] },
        limit: perCaller((body) => (body as UssdRequest).phoneNumber), // requestSchema has parsed the body
        // Session and text identify a repeated request. The refusal of a reused Idempotency-Key would be a status no phone can show.
        idempotent: true,
        input: requestSchema,
        onInvalid: () => text(invalidInput),
        onFault: () => text(unavailable),
        run: async (request: UssdRequest, { audit }) =>
          text(await self.answer({ ...request, network: request.networkCode }, audit)),
      },

      'GET /api/ussd/debug/:sessionId': {
        auth: 'operator',
        limit: perAddress,
        summary: 'Where a session stands.',
        async run({ sessionId }: { sessionId: string }) {
          const session = await self.find(sessionId)
          if (session === undefined)
            throw new RuntimeError('NOT_FOUND', 'This session has expired, or never began.', {
              hint: 'The user must dial again.',
            })
          return {
            sessionId,
            debugInfo: {
              state: screenName(session.state),
              context: {
                sessionId,
                phoneNumber: session.phone,
                networkCode: session.network,
                operator: session.operator,
                message: session.body,
                isAuthenticated: session.state.account !== undefined,
              },
              status: session.ended ? 'done' : 'active',
            },
            activeSessions: await self.active(),
          }
        },
      },

      'GET /api/ussd/sessions': {
        auth: 'operator',
        limit: perAddress,
        summary: 'The sessions that are active.',
        async run() {
          const activeSessions = await self.active()
          return { activeSessions, count: activeSessions.length }
        },
      },

      'GET /api/ussd/metrics': {
        auth: 'operator',
        limit: perAddress,
        summary:
          'Sessions, reply times, and the screens where people give up, since this server started.',
        run: () => self.metrics(),
      },
    }
  },
})
