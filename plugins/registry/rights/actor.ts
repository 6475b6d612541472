import { RuntimeError, type User } from '#core'

/** Who changes something: somebody with a DID, or the holder of an API key, who may change everything. */
export interface Actor {
  /** As it stands in the history: the DID, or the name of the key. */
  readonly name: string
  readonly did: string | undefined
  /** Speaks for the operator: the holder of an API key, or of a grant of `registry/admin`. */
  readonly isOperator: boolean
  /** Whether a party has handed over what is its own: its delegation of `registry/control` came along. */
  readonly actsFor: (party: string) => boolean
}

/** What a route or a tool knows of its caller. */
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

/** Whether somebody may change a thing: its controller, and the holder of an API key. */
export const controls = (actor: Actor, { controller }: Pick<Controlled, 'controller'>): boolean =>
  actor.did === undefined || actor.did === controller

/** Refuses whoever is neither the controller nor the holder of a key. */
export function mustControl(actor: Actor, thing: Controlled): void {
  if (controls(actor, thing)) return
  throw new RuntimeError('FORBIDDEN', `${actor.did} does not control ${thing.did}.`, {
    hint: 'Ask its controller, or use the API key.',
    details: { causes: [`The controller of ${thing.did} is ${thing.controller}.`] },
  })
}

/**
 * Refuses an id that is not the caller's to give. Whoever names a DID says what it stands for, so nobody but the
 * operator gives one away that is neither minted here nor the caller's own.
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

/** Refuses to put a thing into the hands of somebody who has not asked for it. */
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
