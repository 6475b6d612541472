import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { sceneOf, states } from './scenes.ts'

const district = z.string().trim().min(1).max(60)

export default definePlugin({
  name: 'showcase',
  version: '0.1.0',
  summary: 'Shows every state that a chat can be in: a person types /show and the name of one.',
  whenToUse: ['The user types /show.'],
  // A page offers examples to be clicked, so each state is one.
  examples: [...new Set(['approval', 'payment', 'markdown', ...states])].map(
    (state) => `/show ${state}`,
  ),
  tags: ['demo', 'test', 'ui'],
  visibility: 'on-demand',
  stability: 'experimental',
  category: 'ui',
  defaultState: 'development',

  env: {
    SHOWCASE_PACE: z.coerce
      .number()
      .min(0)
      .max(10)
      .default(1)
      .describe('How slowly it shows: 0 without any wait, 2 at half the speed'),
  },
  state: { hasPaid: z.boolean().default(false).meta({ scope: 'room' }) },

  setup({ env }) {
    const wait = (ms: number, signal: AbortSignal) =>
      pause(ms * env.SHOWCASE_PACE, undefined, { signal })
    return { wait }
  },

  tools: {
    read_meters: {
      description: 'Reads the six water meters of a district, one after the other.',
      effect: 'read',
      foreign: false,
      input: z.object({ district }),
      output: z.object({ district: z.string(), litres: z.array(z.number()) }),
      async run(asked, { self, emit, signal }) {
        const litres: number[] = []
        for (let nth = 1; nth <= 6; nth++) {
          await self.wait(900, signal)
          litres.push(1000 + ((asked.district.length * 37 + nth * 211) % 900))
          emit.progress(nth, 6, `meter ${nth}`)
        }
        return { district: asked.district, litres }
      },
    },
    count_wells: {
      description: 'Counts the wells of a district.',
      effect: 'read',
      foreign: false,
      input: z.object({ district }),
      output: z.object({ district: z.string(), wells: z.number() }),
      async run(asked, { self, signal }) {
        await self.wait(1_500, signal)
        return { district: asked.district, wells: 4 + (asked.district.length % 9) }
      },
    },
    send_invitation: {
      description: 'Sends an invitation to a meeting. It is only shown: nobody gets one.',
      effect: 'write',
      approve: true,
      foreign: false,
      input: z.object({
        to: z.email().describe('Whom to invite'),
        day: z.iso.date().describe('The day of the meeting'),
        seats: z.number().int().min(1).max(9).default(1).describe('How many seats are kept'),
        note: z.string().max(500).optional().describe('A line in the invitation'),
      }),
      output: z.object({ invited: z.string(), day: z.string(), seats: z.number() }),
      run: ({ to, day, seats }) => ({ invited: to, day, seats }),
    },
    break_down: {
      description: 'Asks a pump that never answers: it fails, always.',
      effect: 'read',
      foreign: false,
      input: z.object({ pump: z.number().int() }),
      run({ pump }): string {
        throw new RuntimeError('PUMP_SILENT', `Pump ${pump} does not answer.`, {
          status: 502,
          hint: 'Ask again once it has power.',
        })
      },
    },
    show_card: {
      description: 'Shows a card of the page.',
      effect: 'read',
      foreign: false,
      input: z.object({ city: z.string().max(60) }),
      run({ city }, { emit }) {
        const card = { city, temperature: 24, units: 'celsius', conditions: 'clear sky' }
        emit.component('WeatherCard', card)
        return card
      },
    },
  },

  subAgents: {
    surveyor: {
      description: 'Looks around in a district.',
      prompt: 'You look around in a district, and say what you saw.',
      tools: ['count_wells'],
    },
  },

  middleware: {
    /** Plays the scene that a person asked for, whatever the model is. */
    async model(ctx, next) {
      const scene = sceneOf(ctx.message)
      return scene ? scene(ctx, (ms) => ctx.self.wait(ms, ctx.signal)) : next()
    },
  },

  routes: {
    'POST /showcase/pay': {
      summary: 'Settles the claims of /show payment: no money moves.',
      input: z.object({ claimIds: z.array(z.string().max(100)).max(20) }),
      output: z.object({ paid: z.array(z.string()) }),
      run({ claimIds }, { state }) {
        state.hasPaid = true
        return { paid: claimIds }
      },
    },
    'GET /showcase': {
      auth: 'public',
      summary: 'The states that /show shows.',
      output: z.object({ states: z.array(z.string()) }),
      run: () => ({ states }),
    },
  },
})
