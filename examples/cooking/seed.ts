/** Calls the server with an API key; resolves to the JSON of a 2xx answer, and to undefined for a 409. */
export type Call = (
  method: 'GET' | 'POST' | 'PUT',
  path: string,
  body?: object,
  headers?: Record<string, string>,
) => Promise<any> // any: the example prints the answers and reads single members of them

/** Makes a `Call` that sends HTTP requests to a server. */
export const callTo =
  (address: string, apiKey: string): Call =>
  async (method, path, body, headers = {}) => {
    const response = await fetch(address + path, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body && JSON.stringify(body),
    })
    const answer: any = await response.json() // any: the example prints the answers and reads single members of them
    if (response.status === 409) return undefined
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer.message}`)
    return answer
  }

const did = (name: string) => `did:ixo:cooking:${name}`
const stoves = [1, 2, 3]

/** The protocols: the properties of each kind of thing, and the relationships between the kinds. */
const protocols = {
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
    relationships: { distributes: 'CookstoveEntity' },
  },
  cookstove: {
    properties: {
      serial: { type: 'string', required: true },
      fuel: { type: 'string', enum: ['ethanol', 'pellets', 'gas'], required: true },
      power: { type: 'number', min: 0, max: 10 },
    },
    relationships: { operator: 'OrganisationEntity', verifier: 'OracleEntity' },
  },
  oracle: { properties: { name: { type: 'string', required: true }, method: 'string' } },
  usage: {
    properties: {
      day: { type: 'date-time', required: true },
      minutes: { type: 'number', required: true, min: 0, max: 1440 },
      fuelKg: { type: 'number', min: 0 },
    },
  },
  'carbon-credit': {
    properties: {
      tonnes: { type: 'number', required: true, min: 0 },
      vintage: { type: 'integer', required: true },
    },
    relationships: { generatedBy: 'CookstoveEntity' },
    mints: 'tCO2e', // each credit is made of the credential of an approved claim, which makes only one credit
  },
}

/** The twins of a clean-cooking project. A twin comes after the twins to which it has edges. */
const entities = [
  {
    did: did('oracle'),
    type: 'OracleEntity',
    protocol: did('protocol:oracle'),
    properties: { name: 'Stove-use oracle', method: 'plausible minutes for the fuel burnt' },
  },
  ...stoves.map((n) => ({
    did: did(`stove-${n}`),
    type: 'CookstoveEntity',
    class: 'physical-twin',
    protocol: did('protocol:cookstove'),
    properties: { serial: `KNY-000${n}`, fuel: 'ethanol', power: 3.5 },
    services: [{ id: '#data', type: 'UsageData', endpoint: `https://stoves.example/${n}/` }],
    relationships: [{ role: 'verifier', target: did('oracle') }],
  })),
  {
    did: did('project'),
    type: 'ProjectEntity',
    protocol: did('protocol:project'),
    properties: { name: 'Clean cooking in Lusaka', households: 5000 },
    relationships: stoves.map((n) => ({ role: 'distributes', target: did(`stove-${n}`) })),
  },
  {
    did: did('organisation'),
    type: 'OrganisationEntity',
    protocol: did('protocol:organisation'),
    properties: { name: 'Emerging Cooking Ltd', country: 'ZM' },
    relationships: [{ role: 'implements', target: did('project') }],
  },
]

/** A day of use of each stove. The third stove claims to have cooked all day without fuel. */
const usage = [
  { minutes: 95, fuelKg: 0.6 },
  { minutes: 140, fuelKg: 0.9 },
  { minutes: 1400, fuelKg: 0 },
]

/** The rule of this example's oracle: an ethanol stove burns between 3 and 12 grams a minute. */
function judge({ minutes, fuelKg }: { minutes: number; fuelKg: number }) {
  const gramsPerMinute = (fuelKg * 1000) / minutes
  const plausible = gramsPerMinute > 3 && gramsPerMinute < 12
  return {
    status: plausible ? 'approved' : 'rejected',
    notes: `${gramsPerMinute.toFixed(1)} g of ethanol a minute`,
  }
}

/**
 * Fills a server with the example. Things that exist already stay, so the example can run twice. A second person must
 * evaluate the claims of the first: `verify` calls with the second person's key. Without `verify` the claims wait.
 */
export async function seed(
  call: Call,
  verify: Call | undefined,
  say: (line: string) => void,
): Promise<void> {
  for (const [name, protocol] of Object.entries(protocols))
    await call('POST', '/v1/protocols', {
      did: did(`protocol:${name}`),
      type: 'Protocol',
      ...protocol,
    })
  say(`protocols: ${Object.keys(protocols).join(', ')}`)

  for (const entity of entities) await call('POST', '/v1/entities', entity)
  say(`twins: ${entities.map((entity) => entity.did).join(', ')}`)

  for (const [index, day] of usage.entries()) {
    const subject = did(`stove-${index + 1}`)
    const claim = await call(
      'POST',
      '/v1/claims',
      {
        subject,
        type: 'StoveUse',
        protocol: did('protocol:usage'),
        properties: { day: '2026-01-31T00:00:00Z', ...day },
      },
      { 'idempotency-key': `cooking-${subject}` },
    )
    if (!verify) {
      say(`claim ${claim.id} of ${subject}: it waits for a second person with a key of their own`)
      continue
    }
    const verdict = judge(day)
    await verify('POST', `/v1/claims/${claim.id}/evaluation`, { oracle: did('oracle'), ...verdict })
    const { status, credential } = await call('GET', `/v1/claims/${claim.id}`)
    say(`claim ${claim.id} of ${subject}: ${status}, ${verdict.notes}`)
    if (credential === undefined) continue

    const verifiable = await call('GET', `/v1/credentials/${credential}`)
    await call('POST', '/v1/entities', {
      did: did(`carbon-credit-${index + 1}`),
      type: 'CarbonCreditEntity',
      protocol: did('protocol:carbon-credit'),
      properties: { tonnes: 0.002, vintage: 2026 },
      relationships: [{ role: 'generatedBy', target: subject }],
      verifiableCredential: [verifiable],
    })
    say(`credential ${verifiable.id}, and a carbon credit that carries it`)
  }
}
