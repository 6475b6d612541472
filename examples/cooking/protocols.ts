/** The id of something in the example. */
export const did = (name: string) => `did:ixo:cooking:${name}`

/** The places in which the stoves stand: households differ between them, so each is sampled by itself. */
export const strata = ['urban', 'peri-urban', 'rural'] as const

/** The protocols: the properties of each kind of thing, and the relationships between the kinds. */
export const protocols = {
  organisation: {
    properties: { name: { type: 'string', required: true }, country: 'string' },
    relationships: { implements: 'ProjectEntity' },
  },
  project: {
    properties: {
      name: { type: 'string', required: true },
      started: 'date-time',
      households: { type: 'integer', min: 1 },
    },
    relationships: { distributes: 'physical-twin' },
  },
  cookstove: {
    class: 'physical-twin',
    identifiedBy: ['serial'],
    properties: {
      serial: { type: 'string', required: true },
      fuel: { type: 'string', enum: ['ethanol', 'pellets', 'gas'], required: true },
      power: { type: 'number', min: 0, max: 10 },
      stratum: { type: 'string', enum: strata },
    },
    relationships: {
      operator: 'OrganisationEntity',
      verifier: 'OracleEntity',
      burns: 'FuelEntity',
    },
    indexes: { serial: 'string', stratum: 'string', power: 'number' },
  },
  fuel: {
    class: 'physical-twin',
    identifiedBy: ['batch'],
    properties: {
      batch: { type: 'string', required: true },
      kind: { type: 'string', enum: ['ethanol', 'pellets', 'gas'], required: true },
      kg: { type: 'number', min: 0 },
    },
    relationships: { verifier: 'OracleEntity' },
  },
  oracle: { properties: { name: { type: 'string', required: true }, method: 'string' } },
  usage: {
    properties: {
      day: { type: 'date-time', required: true },
      minutes: { type: 'number', required: true, min: 0, max: 1440 },
      fuelKg: { type: 'number', min: 0 },
    },
  },
}

/**
 * What the second person stands behind: how a month of use and a delivery of fuel are evaluated without a hand, and how an
 * approved month becomes a credit. The factor is an example's, and no method's.
 */
export const evaluated = {
  'carbon-credit': {
    properties: {
      tonnes: { type: 'number', required: true, min: 0 },
      vintage: { type: 'integer', required: true },
      month: 'string',
    },
    relationships: { generatedBy: 'CookstoveEntity' },
    mints: {
      unit: 'tCO2e',
      type: 'CarbonCreditEntity',
      property: 'tonnes',
      quantity: { '*': [{ var: 'claim.fuelKg' }, 0.0031] },
      // What the project's sample has shown counts, and the 5 % that it was designed for until then.
      imprecision: { role: 'distributes', otherwise: 0.05 },
      properties: { vintage: { year: { var: 'claim.@submitted' } }, month: { var: 'claim.month' } },
      role: 'generatedBy',
    },
  },
  month: {
    properties: {
      month: { type: 'string', required: true },
      minutes: { type: 'number', required: true, min: 0 },
      fuelKg: { type: 'number', required: true, min: 0 },
      readings: { type: 'array', items: 'object', required: true, max: 31 },
    },
    evaluation: {
      values: {
        burnt: { '/': [{ '*': [{ var: 'claim.fuelKg' }, 1000] }, { var: 'claim.minutes' }] },
        read: { sum: [{ var: 'each.minutes' }, true, 'claim.readings'] },
        longest: { greatest: [{ var: 'each.minutes' }, true, 'claim.readings'] },
        shortest: { least: [{ var: 'each.minutes' }, true, 'claim.readings'] },
        credited: {
          count: {
            and: [
              { '==': [{ var: 'each.month' }, { var: 'claim.month' }] },
              { '==': [{ var: 'each.@status' }, 'approved'] },
            ],
          },
        },
      },
      rules: [
        {
          when: { '>': [{ var: 'values.credited' }, 0] },
          then: 'reject',
          because: '{claim.month} was credited already.',
        },
        {
          when: { '>': [{ abs: { '-': [{ var: 'values.read' }, { var: 'claim.minutes' }] } }, 1] },
          then: 'reject',
          because: 'The readings come to {values.read} minutes, not to {claim.minutes}.',
        },
        {
          when: { not: { '<': [3, { var: 'values.burnt' }, 12] } },
          then: 'reject',
          because: '{values.burnt} g of ethanol a minute; a stove burns between 3 and 12.',
        },
        {
          when: { '==': [{ var: 'values.longest' }, { var: 'values.shortest' }] },
          then: 'agent',
          because: 'Every day is the same.',
        },
      ],
      otherwise: 'approve',
      agent: {
        instructions:
          'You check what meters of cookstoves report. People cook longer on some days than on others: a meter whose days ' +
          'are all alike was copied, and did not measure. Reject what was copied.',
      },
      mints: did('protocol:carbon-credit'),
    },
  },
  delivery: {
    properties: { kg: { type: 'number', required: true, min: 0 } },
    evaluation: {
      rules: [
        {
          when: { '<=': [{ var: 'claim.kg' }, { var: 'asset.kg' }] },
          then: 'approve',
          because: '{claim.kg} kg of a batch of {asset.kg} kg.',
        },
      ],
      otherwise: 'reject',
    },
  },
}
