import { definePlugin, reply } from 'oracle-runtime'
import { deliver, verifyWebhook } from 'oracle-runtime/webhooks'
import { z } from 'zod'

/** Takes questions by signed webhooks, and posts each answer to another address: also after the server was killed. */
export default definePlugin({
  name: 'bridge',
  summary: 'Answers questions that come by webhook.',
  env: {
    BRIDGE_SECRET: z.string().min(1).meta({ secret: true }).describe('Signs both ways'),
    BRIDGE_REPLY_URL: z.url().describe('Where answers go'),
  },

  jobs: {
    answer: {
      input: z.object({ question: z.string(), status: z.string(), text: z.string() }),
      // Eight attempts with growing waits; a receiver that answers 410 ends it.
      run: (data, { env, job }) =>
        deliver(env.BRIDGE_REPLY_URL, data, {
          id: job.key,
          secret: env.BRIDGE_SECRET,
          signal: job.signal,
        }),
    },
  },

  runs: {
    /** Once for each turn, also where another process brought it to its end. The job is kept in the same transaction. */
    async end(run, { jobs }) {
      if (run.origin !== 'bridge') return
      const { question } = z.object({ question: z.string() }).parse(run.metadata)
      // A job takes 64 KiB, and JSON may write a letter in six bytes.
      const text = (await run.reply()).slice(0, 10_000).toWellFormed()
      const answer = { question, status: run.status, text }
      await jobs.later('answer', answer, { key: run.runId })
    },
  },

  routes: {
    'POST /bridge': {
      auth: 'own',
      summary: 'Takes a question; the answer comes by webhook.',
      answers: { 202: ['application/json'] },
      verify: (request, { env }) =>
        verifyWebhook({
          secret: env.BRIDGE_SECRET,
          headers: request.headers,
          body: request.raw(),
        })
          ? { caller: 'bridge' }
          : undefined,
      input: z.object({ id: z.uuid(), did: z.string(), message: z.string().min(1) }),
      async run({ id, did, message }, { turns }) {
        const turn = turns.start({
          user: { did },
          message,
          requestId: id,
          metadata: { question: id },
        })
        const { state } = await turn.begun // it is in the database now
        return reply(202, { id, state })
      },
    },
  },
})
