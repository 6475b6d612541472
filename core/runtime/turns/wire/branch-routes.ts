import { RuntimeError } from '../../../errors.ts'
import type { RouteContext } from '../../../plugin.ts'
import { created } from '../../http/answer/reply.ts'
import { routeOf } from '../../http/routes/route-of.ts'
import type { StepPosition } from '../branches/branches.ts'
import { changeSession } from '../branches/details.ts'
import { forkInput, idInput, sessionChangeInput, stateInput } from './input.ts'
import type { RouteParts } from './routes.ts'
import { userRoute } from './user-route.ts'

/** The routes of conversations that branch off, of what their users say of them, and of what is kept of them. */
export function branchRoutes({ db, runs, traces, branches, stateAt, showsState }: RouteParts) {
  const { sessions } = runs
  const stepIn =
    (sessionId: string): StepPosition =>
    async (runId, step) => {
      const run = await traces.find(runId)
      return run?.session_id === sessionId ? traces.behind(run, step) : undefined
    }
  return {
    'PATCH /sessions/:id': userRoute(
      'Renames a conversation, keeps it above others, or puts it away.',
      sessionChangeInput,
      async ({ id, ...change }, { user }) => {
        if (!(await changeSession(db, user.did, id, change))) throw sessions.unknown(id)
        sessions.tellMade(user.did, id, 'renamed')
        return sessions.view(user.did, id)
      },
    ),
    'POST /sessions/:id/fork': userRoute(
      'Makes a conversation of what another one was at a message or at a step of a run.',
      forkInput,
      async ({ id, ...wish }, { user }) => {
        await runs.mayTalk(user)
        if (!branches) throw notHere()
        const fork = await branches.fork(user.did, id, wish, stepIn(id))
        return created(`/sessions/${fork.sessionId}`, fork)
      },
      { 201: ['application/json'] },
    ),
    'GET /sessions/:id/branches': userRoute(
      'The branches of one conversation, the oldest first.',
      idInput,
      async ({ id }, { user }) => {
        if (!branches) throw notHere()
        return branches.list(user.did, id)
      },
    ),
    'GET /sessions/:id/state': routeOf({
      summary:
        'What a conversation has loaded and what plugins keep for it, now or at a step of a run. For the operator.',
      input: stateInput,
      async run({ id, run, step }, { user }: RouteContext) {
        if (!branches || !stateAt) throw notHere()
        if (user) await sessions.demand(user.did, id)
        if (user && !showsState)
          throw new RuntimeError('FORBIDDEN', 'What plugins keep is for the operator to read.', {
            hint: 'In development the user of a conversation may read it as well.',
          })
        if (run === undefined || step === undefined)
          return stateAt(await branches.keptBefore(id, Number.MAX_SAFE_INTEGER))
        const position = await stepIn(id)(run, step)
        if (position !== undefined) return stateAt(await branches.keptBefore(id, position))
        throw new RuntimeError('NOT_FOUND', `The conversation has no run "${run}" with that step.`)
      },
    }),
  }
}

const notHere = () => new RuntimeError('NOT_IMPLEMENTED', 'Conversations do not branch off here.')
