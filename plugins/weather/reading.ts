import { z } from 'zod'

/** The schema of a unit of temperature. */
export const unitSchema = z.enum(['celsius', 'fahrenheit'])
/** The unit of a temperature. */
export type Unit = z.output<typeof unitSchema>

/** The weather of a place right now. `temp_c` is always Celsius; `units` names the unit of `temperature`. */
export const readingSchema = z.object({
  city: z.string(),
  country: z.string().optional(),
  temp_c: z.number(),
  temperature: z.number(),
  units: unitSchema,
  conditions: z.string(),
  latitude: z.number(),
  longitude: z.number(),
  observed_at: z.string().optional(),
})
/** The present weather of a place. */
export type Reading = z.output<typeof readingSchema>

/** One day of a forecast, in Celsius and millimetres. */
export const daySchema = z.object({
  date: z.string(),
  max_c: z.number(),
  min_c: z.number(),
  rain_mm: z.number().optional(),
  conditions: z.string(),
})
/** The forecast for a day. */
export type Day = z.output<typeof daySchema>

/** Converts a temperature from Celsius to a unit. */
export function inUnit(celsius: number, unit: Unit): number {
  return unit === 'celsius' ? celsius : Math.round((celsius * 1.8 + 32) * 10) / 10
}

/** The words for a weather code of the WMO table 4677, as Open-Meteo uses it. */
export function conditionsOf(code: number): string {
  return conditions[code] ?? 'unknown conditions'
}

const conditions: Record<number, string> = {
  0: 'clear sky',
  1: 'mainly clear',
  2: 'partly cloudy',
  3: 'overcast',
  45: 'fog',
  48: 'depositing rime fog',
  51: 'light drizzle',
  53: 'moderate drizzle',
  55: 'dense drizzle',
  56: 'light freezing drizzle',
  57: 'dense freezing drizzle',
  61: 'slight rain',
  63: 'moderate rain',
  65: 'heavy rain',
  66: 'light freezing rain',
  67: 'heavy freezing rain',
  71: 'slight snowfall',
  73: 'moderate snowfall',
  75: 'heavy snowfall',
  77: 'snow grains',
  80: 'slight rain showers',
  81: 'moderate rain showers',
  82: 'violent rain showers',
  85: 'slight snow showers',
  86: 'heavy snow showers',
  95: 'thunderstorm',
  96: 'thunderstorm with slight hail',
  99: 'thunderstorm with heavy hail',
}
