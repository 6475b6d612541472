import { z } from 'zod'
import { RuntimeError } from '#core'
import { FlightCache } from './flight-cache.ts'
import { conditionsOf, inUnit, type Day, type Reading, type Unit } from './reading.ts'

/** The settings of requests to Open-Meteo. */
export interface OpenMeteoOptions {
  readonly fetch: typeof globalThis.fetch
  readonly units: Unit
  readonly forecastUrl: string
  readonly searchUrl: string
  readonly timeoutMs: number
}

const tenMinutes = 10 * 60_000
const largestAnswer = 256 * 1024

const placeSchema = z.object({
  name: z.string(),
  country: z.string().optional(),
  latitude: z.number(),
  longitude: z.number(),
})
type Place = z.output<typeof placeSchema>
const searchSchema = z.object({ results: z.array(placeSchema).optional() })

const currentSchema = z.object({
  current: z.object({
    time: z.string().optional(),
    temperature_2m: z.number(),
    weather_code: z.number(),
  }),
})
const dailySchema = z.object({
  daily: z.object({
    time: z.array(z.string()),
    weather_code: z.array(z.number().nullable()),
    temperature_2m_max: z.array(z.number().nullable()),
    temperature_2m_min: z.array(z.number().nullable()),
    precipitation_sum: z.array(z.number().nullable()).optional(),
  }),
})

/** Reads places and their weather from Open-Meteo, or from anything that speaks its wire format. */
export function openMeteo(options: OpenMeteoOptions) {
  const places = new FlightCache<Place>({ ttlMs: tenMinutes, max: 1000 })
  const readings = new FlightCache<z.output<typeof currentSchema>['current']>({
    ttlMs: tenMinutes,
    max: 1000,
  })
  const forecasts = new FlightCache<Day[]>({ ttlMs: tenMinutes, max: 1000 })

  const find = (city: string, signal: AbortSignal) =>
    places.get(
      city.normalize('NFC').toLowerCase(),
      async () => {
        const answer = await ask(
          options,
          options.searchUrl,
          { name: city, count: '1', language: 'en', format: 'json' },
          searchSchema,
        )
        const place = answer.results?.[0]
        if (!place)
          throw new RuntimeError('NOT_FOUND', `No place called "${city}" was found.`, {
            hint: 'Check the spelling, or name a larger town nearby.',
          })
        return place
      },
      signal,
    )

  return {
    /** The weather of a city right now. */
    async current(
      city: string,
      { units = options.units, signal }: { units?: Unit; signal: AbortSignal },
    ): Promise<Reading> {
      const place = await find(city, signal)
      const current = await readings.get(
        keyOf(place),
        async () =>
          (
            await ask(
              options,
              options.forecastUrl,
              { ...at(place), current: 'temperature_2m,weather_code' },
              currentSchema,
            )
          ).current,
        signal,
      )
      return {
        city: place.name,
        country: place.country,
        temp_c: current.temperature_2m,
        temperature: inUnit(current.temperature_2m, units),
        units,
        conditions: conditionsOf(current.weather_code),
        latitude: place.latitude,
        longitude: place.longitude,
        observed_at: current.time,
      }
    },

    /** The forecast of a city for the next days, today first. */
    async forecast(city: string, days: number, { signal }: { signal: AbortSignal }) {
      const place = await find(city, signal)
      const week = await forecasts.get(
        keyOf(place),
        async () => daysOf(await ask(options, options.forecastUrl, weekOf(place), dailySchema)),
        signal,
      )
      return { city: place.name, country: place.country, days: week.slice(0, days) }
    },
  }
}

const keyOf = ({ latitude, longitude }: Place) => `${latitude},${longitude}`
const at = ({ latitude, longitude }: Place) => ({
  latitude: String(latitude),
  longitude: String(longitude),
})
const weekOf = (place: Place) => ({
  ...at(place),
  daily: 'weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum',
  forecast_days: '7',
  timezone: 'auto',
})

/** The days of a forecast, without those for which the service has no temperatures yet. */
function daysOf({ daily }: z.output<typeof dailySchema>): Day[] {
  return daily.time.flatMap((date, i) => {
    const max = daily.temperature_2m_max[i]
    const min = daily.temperature_2m_min[i]
    if (max == null || min == null) return []
    return [
      {
        date,
        max_c: max,
        min_c: min,
        rain_mm: daily.precipitation_sum?.[i] ?? undefined,
        conditions: conditionsOf(daily.weather_code[i] ?? -1),
      },
    ]
  })
}

/** Sends one request to one endpoint, with a limit on time and size, and parses the answer. */
async function ask<T extends z.ZodType>(
  { fetch, timeoutMs }: OpenMeteoOptions,
  endpoint: string,
  query: Record<string, string>,
  schema: T,
): Promise<z.output<T>> {
  const url = new URL(endpoint)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  try {
    const response = await fetch(url, {
      signal: AbortSignal.timeout(timeoutMs),
      headers: { accept: 'application/json' },
    })
    if (!response.ok) {
      await response.body?.cancel()
      throw new Error(`status ${response.status}`)
    }
    return schema.parse(JSON.parse(await bounded(response)))
  } catch (cause) {
    if (cause instanceof Error && cause.name === 'TimeoutError')
      throw new RuntimeError(
        'UPSTREAM_TIMEOUT',
        `The weather service did not answer within ${timeoutMs} ms.`,
        {
          hint: 'Try again in a moment.',
          cause,
        },
      )
    throw new RuntimeError(
      'UPSTREAM_FAILED',
      'The weather service cannot be reached, or its answer cannot be read.',
      {
        hint: 'Try again later; the server needs a network connection for the weather.',
        cause,
      },
    )
  }
}

async function bounded(response: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > largestAnswer) throw new Error(`more than ${largestAnswer} characters`)
  }
  return text + decoder.decode()
}
