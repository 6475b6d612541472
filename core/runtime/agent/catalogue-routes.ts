import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, RouteContext, User } from '../../plugin.ts'
import { routeOf } from '../http/routes/route-of.ts'
import type { Models } from '../model/choose.ts'
import type { RoomState } from '../store/room-state.ts'
import type { Runs } from '../turns/carry/runs.ts'
import type { Agent } from './agent.ts'
import { listModels } from './model-list.ts'

/** The keys of the routes that list what the agent can do. */
export const catalogueRouteKeys = [
  'GET /capabilities',
  'GET /models',
  'GET /sessions/:id/prompt',
] as const

/** What the catalogue routes read. */
export interface CatalogueParts {
  readonly agent: Pick<Agent, 'capabilities' | 'promptOf'>
  readonly runs: Runs
  /** Whether the user of a session may read what its models are sent, as the operator may. */
  readonly showsPrompts: boolean
  /** The user of a DID, for a question of the operator. */
  readonly restoreUser: (did: string) => Promise<User>
  readonly rooms: RoomState
  readonly models: Models
}

const capabilitiesInput = z.object({
  sessionId: z.string().min(1).max(100).optional().describe('Says what is loaded in this session'),
})

/** The routes that list the plugins and the models. */
export function catalogueRoutes(
  parts: CatalogueParts,
): Record<(typeof catalogueRouteKeys)[number], AnyRoute> {
  const { agent, runs, rooms, models, showsPrompts, restoreUser } = parts
  return {
    'GET /sessions/:id/prompt': routeOf({
      summary:
        'What the next call of the model would be sent in a conversation, in parts with their bytes. For the operator.',
      input: z.object({ id: z.string().min(1).max(100) }),
      async run({ id }, { user, requestId }: RouteContext) {
        if (user) await runs.sessions.demand(user.did, id)
        if (user && !showsPrompts)
          throw new RuntimeError('FORBIDDEN', 'What models are sent is for the operator to read.', {
            hint: 'In development the user of a conversation may read it as well.',
          })
        const own = await runs.sessions.facts(id)
        if (!own) throw runs.sessions.unknown(id)
        const room = own.room ?? rooms.of(own.did)
        const caller = { user: user ?? (await restoreUser(own.did)), room, requestId }
        // A model that the app has no more is no reason to tell nothing.
        const model = own.model !== null && models.has(own.model) ? { model: own.model } : {}
        return agent.promptOf(
          { ...caller, ...model },
          { id, checkpoint: await runs.headOf(id) },
          (bytes) => runs.historyOf(id, bytes),
        )
      },
    }),
    'GET /capabilities': routeOf({
      summary: 'Every plugin with its state, its tools and its share of the prompt.',
      input: capabilitiesInput,
      async run({ sessionId }, { user, requestId }) {
        const caller = { user: user!, room: rooms.of(user!.did), requestId } // a ucan route has a user
        if (sessionId === undefined) return agent.capabilities(caller)
        await runs.sessions.demand(caller.user.did, sessionId)
        const room = (await runs.sessions.roomOf(sessionId)) ?? caller.room
        const checkpoint = await runs.headOf(sessionId)
        return agent.capabilities({ ...caller, room }, { id: sessionId, checkpoint })
      },
    }),
    'GET /models': {
      auth: 'public',
      summary: 'The models that a turn may ask for.',
      run: () => ({
        models: listModels(models),
        default: models.default.id,
      }),
    },
  }
}
