import { RuntimeError, type User } from '#core'

/** Who changes something: somebody with a DID, or the holder of the API key, who may change everything. */
export interface Actor {
  /** As it stands in the history: the DID, or the name of the key. */
  readonly name: string
  readonly did: string | undefined
}

/** The actor of a route or a tool. */
export const actorOf = (ctx: { readonly user?: User; readonly caller?: string }): Actor => ({
  name: ctx.user?.did ?? ctx.caller ?? 'unknown',
  did: ctx.user?.did,
})

/** Refuses whoever is neither the controller nor the holder of the key. */
export function mustControl(
  actor: Actor,
  { did, controller }: { did: string; controller: string },
): void {
  if (actor.did === undefined || actor.did === controller) return
  throw new RuntimeError('FORBIDDEN', `${actor.did} does not control ${did}.`, {
    hint: 'Ask its controller, or use the API key.',
    details: { causes: [`The controller of ${did} is ${controller}.`] },
  })
}
