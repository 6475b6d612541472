import { RuntimeError, type User } from '#core'

/** The party that changes something: a caller with a DID, or the holder of an API key, who may change everything. */
export interface Actor {
  /** The name of the actor in the history: its DID, or the name of its API key. */
  readonly name: string
  readonly did: string | undefined
  /** Whether the actor acts for the operator: with an API key, or with a grant of `registry/admin`. */
  readonly isOperator: boolean
  /** Whether the request brought a delegation of `registry/control` from a party. */
  readonly actsFor: (party: string) => boolean
}

/** The members of a context of a route or a tool that say who calls. */
export interface Calling {
  readonly user?: User
  readonly caller?: string
}

/** The actor of a route or a tool. */
export function actorOf({ user, caller }: Calling, oracleDid: string): Actor {
  if (!user)
    return { name: caller ?? 'unknown', did: undefined, isOperator: true, actsFor: () => true }
  return {
    name: user.did,
    did: user.did,
    isOperator: user.can('registry/admin', oracleDid),
    actsFor: (party) => user.can('registry/control', party),
  }
}

interface Controlled {
  readonly did: string
  readonly controller: string
}

/** Whether an actor may change a thing: the controller of the thing may, and so may the holder of an API key. */
export const controls = (actor: Actor, { controller }: Pick<Controlled, 'controller'>): boolean =>
  actor.did === undefined || actor.did === controller

/** Refuses an actor that is neither the controller of a thing nor the holder of an API key. */
export function mustControl(actor: Actor, thing: Controlled): void {
  if (controls(actor, thing)) return
  throw new RuntimeError('FORBIDDEN', `${actor.did} does not control ${thing.did}.`, {
    hint: 'Ask the controller, or use the API key.',
    details: { causes: [`The controller of ${thing.did} is ${thing.controller}.`] },
  })
}

/**
 * Refuses an id that the caller has no right to give. An entity decides what its id resolves to, so only the operator
 * gives an entity an id that is neither minted by the registry nor the caller's own DID.
 */
export function mustOwnId(actor: Actor, did: string | undefined): void {
  if (did === undefined || did === actor.did || actor.isOperator) return
  throw new RuntimeError('FORBIDDEN', `${actor.did} cannot give the id ${did} to anything.`, {
    hint: 'Leave out the did, and one is minted; or ask the operator for registry/admin.',
    details: {
      path: 'did',
      causes: ['Only the own DID, an API key or registry/admin gives an id.'],
    },
  })
}

/** Refuses to make a party the controller of a thing, unless the party or the operator agrees. */
export function mustSpeakFor(actor: Actor, controller: string): void {
  if (controller === actor.did || actor.isOperator || actor.actsFor(controller)) return
  throw new RuntimeError('FORBIDDEN', `${actor.did} cannot make ${controller} a controller.`, {
    hint: `Send a delegation of ${controller} that grants registry/control on it, or ask the operator for registry/admin.`,
    details: {
      path: 'controller',
      causes: [`Nothing that came along grants "registry/control" on ${controller}.`],
    },
  })
}
