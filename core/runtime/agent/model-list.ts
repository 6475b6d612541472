import type { Model, OfferSettings } from '../../plugin.ts'
import { Chain } from '../model/chain.ts'
import type { Models } from '../model/choose.ts'
import { OpenedLater } from '../model/opened-later.ts'

/** A model as clients list it. */
export interface ListedModel {
  readonly id: string
  readonly label: string
  /** Who makes it: what stands before the first slash of its name. */
  readonly family: string
  readonly tier: Tier
  /** `$`, `$$`, `$$$` or `free`; empty where the price is not known. */
  readonly costLabel: string
  /** A short word and a sentence of the operator, empty where nothing is set: clients draw both. */
  readonly badge: string
  readonly blurb: string
  /** Whether the model reads pictures. */
  readonly vision: boolean
  /** US dollars; what is not known is null. */
  readonly pricing: {
    readonly inputPerMillion: number | null
    readonly outputPerMillion: number | null
    readonly currency: 'USD'
    readonly unit: 'per_million_tokens'
  }
  readonly isDefault: boolean
  readonly contextWindow?: number
  readonly reads: NonNullable<Model['reads']>
  /** The models that take over where this one cannot answer. */
  readonly fallbacks: readonly string[]
}

type Tier = NonNullable<OfferSettings['tier']>

/** The tiers from the cheapest, with the price of a million written tokens at which each ends. */
const tiers: readonly (readonly [tier: Tier, below: number, costLabel: string])[] = [
  ['everyday', 2, '$'],
  ['balanced', 15, '$$'],
  ['top', Infinity, '$$$'],
]

/** The models of an app, the cheapest tier first and within a tier in the order of MODEL. */
export function listModels({ all, default: first }: Models): ListedModel[] {
  const listed = all.map((model) => listedModel(model, model === first))
  const rank = ({ tier }: ListedModel) => tiers.findIndex(([name]) => name === tier)
  return listed.toSorted((a, b) => rank(a) - rank(b))
}

function listedModel(model: Model, isDefault: boolean): ListedModel {
  const members = model instanceof Chain ? model.members : [model]
  const [main = model, ...rest] = members
  const settings = main instanceof OpenedLater ? main.settings : {}
  const isFree = main instanceof OpenedLater && main.isFree
  const { id, label = id, contextWindow, price, reads = {} } = model
  const [byPrice, , cost] = tiers.find(([, below]) => (price?.output ?? 0) < below) ?? tiers[0]!
  const byCost = isFree ? 'everyday' : price ? byPrice : 'balanced'
  return {
    id,
    label,
    family: main.id.includes('/') ? main.id.slice(0, main.id.indexOf('/')) : main.id,
    tier: settings.tier ?? byCost,
    costLabel: isFree ? 'free' : price ? cost : '',
    badge: settings.badge ?? '',
    blurb: settings.blurb ?? '',
    vision: (reads.image?.length ?? 0) > 0,
    pricing: {
      inputPerMillion: price?.input ?? null,
      outputPerMillion: price?.output ?? null,
      currency: 'USD',
      unit: 'per_million_tokens',
    },
    isDefault,
    contextWindow,
    reads,
    fallbacks: rest.map((member) => member.id),
  }
}
