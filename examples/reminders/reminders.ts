import { definePlugin } from 'oracle-runtime'
import { z } from 'zod'

/** Reminds people of what they ask for. The words come by themselves, without a model, also after a restart. */
export default definePlugin({
  name: 'reminders',
  summary: 'Reminds people of what they ask for, at the time they say.',
  whenToUse: ['The user wants to be reminded of something later.'],
  examples: ['Remind me in one minute to call the clinic.'],
  visibility: 'always',

  jobs: {
    remind: {
      input: z.object({ did: z.string(), session: z.string(), text: z.string() }),
      async run({ did, session, text }, { job, sessions }) {
        // The key says it once, however often the job is tried.
        await sessions.say({ user: { did }, session, text: `Reminder: ${text}.`, key: job.key })
      },
    },
  },

  tools: {
    remind_me: {
      description: 'Reminds the user of something in some minutes.',
      input: z.object({
        text: z.string().trim().min(1).max(500).describe('What to do, e.g. "call the clinic"'),
        minutes: z.number().positive().max(525_600).describe('In how many minutes'),
      }),
      async run({ text, minutes }, { jobs, user, session, callKey }) {
        const { did } = user
        const data = { did, session: session.id, text }
        await jobs.later('remind', data, { inMs: minutes * 60_000, key: callKey, user: did })
        return `You will be reminded in ${minutes} minutes.`
      },
    },
  },
})
