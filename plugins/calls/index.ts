import { networkInterfaces } from 'node:os'
import { builtView, definePlugin, parts, reply, RuntimeError } from '#core'
import { z } from 'zod'
import payments from '../payments/index.ts'
import { Calls } from './calls.ts'
import { environment } from './environment.ts'
import { callView, numbers } from './rows.ts'
import { isInnerOnly } from './signalling/addresses.ts'
import { longestOffer } from './signalling/sdp.ts'
import { relayOf } from './signalling/turn.ts'
import { ChosenSpeech } from './speech/chosen.ts'
import { consentFor } from './speech/consent.ts'
import { migrations, withCallsTables } from './tables.ts'

/** Said plainly to whoever asks; docs/calls.md and the README name the same. */
const met = ['Chromium']
const notMet = [
  ...['other browsers', 'phones', 'real NATs', 'a TURN relay', 'the recognizer of a browser'],
  ...['OpenAI', 'a LiveKit server'],
]
const word = z.string().regex(/^[a-z0-9][a-z0-9_+-]{0,63}$/i, 'letters, digits, - and _ only')
const callId = z.object({ callId: z.string().min(1).max(100) })
const place = z.enum(['device', 'server', 'service'])
const view = z.object({
  callId: z.string(),
  sessionId: z.string(),
  callType: z.enum(['audio', 'video']),
  callStatus: z.enum(['pending', 'active', 'ended']),
  callStartedAt: z.string(),
  callEndedAt: z.string().optional(),
  seconds: z.number().int(),
  endedBy: z.string().optional(),
})

function relayFrom(env: Parameters<typeof relayOf>[0]) {
  try {
    return relayOf(env)
  } catch (error) {
    throw new RuntimeError('ENV_INVALID', error instanceof Error ? error.message : String(error))
  }
}

const callMetadata = z.object({ call: z.object({ id: z.string(), type: z.string() }) })
/** The call of a turn, by what this plugin said of it when it started the turn. */
const callOf = (metadata: unknown) => callMetadata.safeParse(metadata).data?.call
const readsPictures = ({ reads }: { readonly reads?: { readonly image?: readonly string[] } }) =>
  (reads?.image ?? []).some((type) => ['image/webp', 'image/*', '*/*'].includes(type))

export default definePlugin({
  name: 'calls',
  version: '0.1.0',
  summary: 'Encrypted voice calls with the agent, without a server in between.',
  whenToUse: ['The person talks to you in a call.'],
  tags: ['calls', 'voice', 'webrtc'],
  visibility: 'always',
  stability: 'experimental',
  category: 'communication',

  uses: [payments],

  env: environment,
  migrations,

  async setup(boot) {
    const chosen = new ChosenSpeech(boot.env, boot.fetch)
    // What another plugin brings is known once its setup has returned.
    if (chosen.isOwn) await chosen.choose()
    else boot.onReady(() => chosen.choose())
    const calls = new Calls(boot, chosen, relayFrom(boot.env))
    const { CALLS_WARM, CALLS_ADDRESS } = boot.env
    if (CALLS_WARM === 'on') boot.onReady(() => calls.warm())
    if (boot.environment === 'production' && !CALLS_ADDRESS && isInnerOnly(networkInterfaces()))
      boot.log.warn(
        { variable: 'CALLS_ADDRESS' },
        'This machine has inner addresses alone: calls reach it from its own network. Behind one-to-one NAT set CALLS_ADDRESS.',
      )
    boot.onClose(() => calls.close())
    boot.health(() => calls.check())
    return calls
  },

  middleware: {
    // The minutes of a call are charged in its turns, once each; a call without an answered word costs nothing.
    async turn(ctx, next) {
      await next()
      const { env, origin, plugins, self, user, metadata } = ctx
      const { CALLS_PRICE_PER_MINUTE: price } = env
      const id = callOf(metadata)?.id
      if (origin !== 'calls' || price === 0 || !plugins.payments || id === undefined) return
      const minutes = await self.rows.chargeMinutes(user.did, id)
      if (minutes === 0) return
      const reason = `${minutes} ${minutes === 1 ? 'minute' : 'minutes'} of a call`
      await plugins.payments.charge(ctx, {
        ...{ key: `${id}:${ctx.requestId}`, reason },
        amount: minutes * price,
      })
    },
  },

  jobs: {
    sweep: { every: '1m', run: (_, { self }) => self.rows.sweep() },
  },

  prompt: (ctx) =>
    ctx.origin === 'calls'
      ? 'The person hears you in a call: spoken language, short sentences, no Markdown, no links read out, numbers as words.'
      : undefined,

  tools: {
    end_call: {
      description: 'Hangs up, after what you say now. Call it when the person says goodbye.',
      input: z.object({}),
      // It ends the call of the person who speaks, and nothing else.
      approve: false,
      enabled: (ctx) => ctx.origin === 'calls',
      run(_, { self, metadata }) {
        const id = callOf(metadata)?.id
        return id !== undefined && self.hangUp(id)
          ? 'The call ends after your words.'
          : 'The call is over.'
      },
    },
    look_at_camera: {
      description:
        'Looks through the camera of the person in the call, once. Call it when they ask about what you could see.',
      input: z.object({}),
      effect: 'read',
      // Anybody can hold words into a camera.
      foreign: true,
      enabled: (ctx) =>
        ctx.origin === 'calls' &&
        callOf(ctx.metadata)?.type === 'video' &&
        (ctx.model.reads === undefined || readsPictures(ctx.model)),
      async run(_, { self, metadata, model }) {
        if (!readsPictures(model)) return 'You cannot see: this model reads no images. Say so.'
        const picture = await self.look(callOf(metadata)?.id ?? '')
        if (picture === 'elsewhere') return 'The call has gone on elsewhere; ask again.'
        if (picture === 'off') return 'No picture came: the camera is off. Say so.'
        return parts([
          { type: 'text', text: 'What the camera shows now.' },
          {
            type: 'image',
            mediaType: 'image/webp',
            name: 'camera.webp',
            data: picture,
            keep: false,
          },
        ])
      },
    },
  },

  // `/calls/…` are routes, so the view stands beside them.
  web: {
    '/calls-page': builtView('/calls-page/view.js', new URL('built/view.js', import.meta.url)),
  },
  views: {
    calls: {
      label: { en: 'Call', sw: 'Simu', fr: 'Appel' },
      module: '/calls-page/view.js',
      order: 65,
    },
  },

  // So that a page without a call button for other oracles asks nobody for what is not there.
  facts: ({ env }) => ({ calls: { video: env.CALLS_VIDEO === 'on' } }),

  userData: {
    async *export(did, { db, now }) {
      const rows = await withCallsTables(db)
        .selectFrom('calls_calls')
        .selectAll()
        .where('did', '=', did)
        .orderBy('created_at')
        .execute()
      for (const row of rows) yield { kind: 'call', ...callView(numbers(row), now()) }
    },
    async erase(did, { db }) {
      const gone = withCallsTables(db).deleteFrom('calls_calls').where('did', '=', did)
      return { erased: { call: (await gone.returning('id').execute()).length } }
    },
  },

  routes: {
    'GET /calls': {
      summary: 'What hears and speaks in calls, where the sound goes, and the calls of the caller.',
      output: z.object({
        hearing: z.object({ by: z.string(), where: place, name: z.string() }),
        voice: z.object({
          by: z.string(),
          where: place,
          name: z.string(),
          voices: z.array(z.string()),
        }),
        /** What `POST /calls` has to say as its consent. */
        consent: z.string().optional(),
        video: z.boolean(),
        iceServers: z.array(
          z.object({ urls: z.array(z.string()), username: z.string(), credential: z.string() }),
        ),
        limits: z.object({
          minutes: z.number(),
          minutesPerDay: z.number(),
          idleSeconds: z.number(),
        }),
        minutesLeft: z.number(),
        transports: z.array(z.object({ name: z.string(), tested: z.boolean() })),
        /** With what calls were tried, and with what they never were. */
        met: z.array(z.string()),
        notMet: z.array(z.string()),
        calls: z.array(view),
      }),
      async run(_, { self, user, now }) {
        const { hearing, voice } = self.chosen.now
        const consent = consentFor(self.chosen.now)
        const { CALLS_MINUTES, CALLS_MINUTES_PER_DAY, CALLS_IDLE_SECONDS } = self.env
        const calls = await self.rows.underWay(user.did)
        return {
          hearing: { by: hearing.by, where: hearing.where, name: hearing.name },
          voice: {
            by: voice.by,
            where: voice.where,
            name: voice.name,
            voices: [...(voice.port?.voices ?? [])],
          },
          ...(consent !== undefined && { consent }),
          video: self.env.CALLS_VIDEO === 'on',
          iceServers: self.iceServers(user.did),
          limits: {
            minutes: CALLS_MINUTES,
            minutesPerDay: CALLS_MINUTES_PER_DAY,
            idleSeconds: CALLS_IDLE_SECONDS,
          },
          minutesLeft: Math.floor(await self.rows.minutesLeft(user.did)),
          transports: [{ name: 'direct', tested: true }],
          ...{ met: [...met], notMet: [...notMet] },
          calls: calls.map((row) => callView(row, now())),
        }
      },
    },
    'POST /calls': {
      summary: 'Answers the offer of a page: a call of a session of the caller.',
      input: z.object({
        sessionId: z.string().min(1).max(100),
        callType: z.enum(['audio', 'video']),
        sdp: z.string().min(1).max(longestOffer.characters),
        agentVoice: word.optional(),
        language: word.optional(),
        consent: z.string().max(200).optional(),
        replaces: z.string().max(100).optional(),
      }),
      limit: { max: 10, perMs: 60_000 },
      answers: { 201: ['application/json'] },
      async run(input, { self, user }) {
        return reply(201, await self.open(user.did, input))
      },
    },
    'GET /calls/:callId': {
      summary: 'A call of the caller.',
      input: callId,
      output: view,
      run: async (input, { self, user, now }) =>
        callView(await self.rows.own(user.did, input.callId), now()),
    },
    'PATCH /calls/:callId/update': {
      summary:
        'Tells that a call has begun or ended, as the page saw it. The times are those of the server.',
      input: callId.extend({
        callStatus: z.enum(['active', 'ended']),
        callStartedAt: z.iso.datetime().optional(),
        callEndedAt: z.iso.datetime().optional(),
      }),
      output: view,
      async run(input, { self, user, now }) {
        await self.rows.own(user.did, input.callId)
        if (input.callStatus === 'ended') await self.end(input.callId, 'user')
        return callView(await self.rows.own(user.did, input.callId), now())
      },
    },
    'DELETE /calls/:callId': {
      summary: 'Hangs up.',
      input: callId,
      output: view,
      async run(input, { self, user, now }) {
        await self.rows.own(user.did, input.callId)
        await self.end(input.callId, 'user')
        return callView(await self.rows.own(user.did, input.callId), now())
      },
    },
  },
})
