import { z } from 'zod'
import type { AnyRoute } from '../../plugin.ts'
import { routeOf } from '../http/routes/route-of.ts'
import type { Models } from '../model/choose.ts'
import type { RoomState } from '../store/room-state.ts'
import type { Runs } from '../turns/carry/runs.ts'
import type { Agent } from './agent.ts'
import { listModels } from './model-list.ts'

/** The keys of the routes that list what the agent can do. */
export const catalogueRouteKeys = ['GET /capabilities', 'GET /models'] as const

/** What the catalogue routes read. */
export interface CatalogueParts {
  readonly agent: Pick<Agent, 'capabilities'>
  readonly runs: Runs
  readonly rooms: RoomState
  readonly models: Models
}

const capabilitiesInput = z.object({
  sessionId: z.string().min(1).max(100).optional().describe('Says what is loaded in this session'),
})

/** The routes that list the plugins and the models. */
export function catalogueRoutes({
  agent,
  runs,
  rooms,
  models,
}: CatalogueParts): Record<(typeof catalogueRouteKeys)[number], AnyRoute> {
  return {
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
