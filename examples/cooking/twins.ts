import { did, strata } from './protocols.ts'

const stoves = Array.from({ length: 12 }, (_, at) => at + 1)
const fuels = strata.map((stratum, at) => ({ n: at + 1, stratum }))
const stratumOf = (n: number) => strata[(n - 1) % strata.length]
const verifier = { role: 'verifier', target: did('oracle') }

/** The twins of a clean-cooking project: organisation, project, oracle, stoves in three strata, and their fuel. */
export const entities = [
  {
    did: did('oracle'),
    type: 'OracleEntity',
    protocol: did('protocol:oracle'),
    properties: { name: 'Stove-use oracle', method: 'plausible minutes for the fuel burnt' },
  },
  ...fuels.map(({ n }) => ({
    did: did(`fuel-${n}`),
    type: 'FuelEntity',
    protocol: did('protocol:fuel'),
    properties: { batch: `ETH-26-0${n}`, kind: 'ethanol', kg: 500 },
    relationships: [verifier],
  })),
  ...stoves.map((n) => ({
    did: did(`stove-${n}`),
    type: 'CookstoveEntity',
    class: 'physical-twin',
    protocol: did('protocol:cookstove'),
    properties: {
      serial: `KNY-${String(n).padStart(4, '0')}`,
      fuel: 'ethanol',
      power: 3.5,
      stratum: stratumOf(n),
    },
    services: [{ id: '#data', type: 'UsageData', endpoint: `https://stoves.example/${n}/` }],
    relationships: [
      verifier,
      { role: 'burns', target: did(`fuel-${((n - 1) % strata.length) + 1}`) },
    ],
  })),
  {
    did: did('project'),
    type: 'ProjectEntity',
    protocol: did('protocol:project'),
    properties: { name: 'Clean cooking in Lusaka', households: 5000 },
    relationships: [
      ...stoves.map((n) => ({ role: 'distributes', target: did(`stove-${n}`) })),
      ...fuels.map(({ n }) => ({ role: 'distributes', target: did(`fuel-${n}`) })),
    ],
  },
  {
    did: did('organisation'),
    type: 'OrganisationEntity',
    protocol: did('protocol:organisation'),
    properties: { name: 'Emerging Cooking Ltd', country: 'ZM' },
    relationships: [{ role: 'implements', target: did('project') }],
  },
]

interface Reading {
  readonly day: string
  readonly minutes: number
  readonly fuelKg: number
}

/** The readings of one stove in January 2026: always the same numbers, which look as meters report. */
function monthOf(stove: number): Reading[] {
  let state = stove * 2_654_435_761
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  const longer = { urban: 90, 'peri-urban': 110, rural: 140 }[stratumOf(stove) ?? 'urban']
  return Array.from({ length: 31 }, (_, at) => {
    const minutes = Math.round(longer * (0.6 + 0.8 * next()))
    return {
      day: `2026-01-${String(at + 1).padStart(2, '0')}`,
      minutes,
      fuelKg: Math.round(minutes * (5.5 + 2 * next())) / 1000,
    }
  })
}

/** The stove that claims to have cooked nearly all day without fuel: a rule rejects that. */
export const implausible = 3
/** The stove whose days are all alike: the agent looks at that. */
export const copied = 7

function readingsOf(stove: number): Reading[] {
  const [first, ...rest] = monthOf(stove)
  if (!first) return []
  const all = [first, ...rest]
  if (stove === implausible) return all.map(({ day }) => ({ day, minutes: 1400, fuelKg: 0.01 }))
  if (stove === copied) return all.map(({ day }) => ({ ...first, day }))
  return all
}

/** What is claimed: a month of use of each stove, and the delivery of each batch of fuel. */
export const claims = [
  ...fuels.map(({ n }) => ({
    subject: did(`fuel-${n}`),
    type: 'FuelDelivery',
    protocol: did('protocol:delivery'),
    properties: { kg: 480 },
  })),
  ...stoves.map((n) => {
    const readings = readingsOf(n)
    const sum = (of: 'minutes' | 'fuelKg') => readings.reduce((all, one) => all + one[of], 0)
    return {
      subject: did(`stove-${n}`),
      type: 'StoveUse',
      protocol: did('protocol:month'),
      properties: {
        month: '2026-01',
        minutes: sum('minutes'),
        fuelKg: Math.round(sum('fuelKg') * 1000) / 1000,
        readings,
      },
    }
  }),
]
