import { z } from 'zod'
import { builtView, definePlugin } from '#core'
import { openMeteo } from './open-meteo.ts'
import { daySchema, readingSchema, unitSchema } from './reading.ts'

const city = z.string().trim().min(1).max(100).describe('City name, e.g. "Lusaka"')
const units = unitSchema.optional().describe('Unit of the field "temperature"')

export default definePlugin({
  name: 'weather',
  summary: 'Current weather and forecasts for any city.',
  whenToUse: ['The user asks about the weather, the temperature or the forecast of a place.'],
  examples: ['What is the weather in Lusaka?', 'Will it rain in Nairobi this week?'],
  tags: ['weather', 'temperature', 'forecast', 'rain'],
  visibility: 'on-demand',
  stability: 'stable',
  category: 'data',

  env: {
    WEATHER_DEFAULT_UNITS: unitSchema
      .default('celsius')
      .describe('Unit of the field "temperature"'),
    WEATHER_API_URL: z
      .url()
      .default('https://api.open-meteo.com/v1/forecast')
      .describe('Forecast endpoint'),
    WEATHER_GEOCODING_URL: z
      .url()
      .default('https://geocoding-api.open-meteo.com/v1/search')
      .describe('Endpoint that finds a place by its name'),
    WEATHER_TIMEOUT_MS: z.coerce
      .number()
      .int()
      .positive()
      .max(600_000)
      .default(5000)
      .describe('How long an upstream may take'),
  },
  state: { lastCity: z.string().optional() },

  setup: ({ env, fetch }) =>
    openMeteo({
      fetch,
      units: env.WEATHER_DEFAULT_UNITS,
      forecastUrl: env.WEATHER_API_URL,
      searchUrl: env.WEATHER_GEOCODING_URL,
      timeoutMs: env.WEATHER_TIMEOUT_MS,
    }),

  prompt: ({ state }) =>
    state.lastCity ? `The last city whose weather was asked for: ${state.lastCity}.` : undefined,

  tools: {
    get_current_weather: {
      description: 'Temperature and conditions in a city right now.',
      effect: 'read',
      input: z.object({ city, units }),
      output: readingSchema,
      async run(ask, { self, signal, state, emit }) {
        const reading = await self.current(ask.city, { units: ask.units, signal })
        state.lastCity = reading.city
        emit.component('WeatherCard', reading)
        return reading
      },
    },
    get_weather_forecast: {
      description:
        'Highest and lowest temperature, rain and conditions of a city for each of the next days.',
      effect: 'read',
      input: z.object({
        city,
        days: z.number().int().min(1).max(7).default(3).describe('How many days, 1 to 7'),
      }),
      output: z.object({
        city: z.string(),
        country: z.string().optional(),
        days: z.array(daySchema),
      }),
      async run({ city, days }, { self, signal, state }) {
        const forecast = await self.forecast(city, days, { signal })
        state.lastCity = forecast.city
        return forecast
      },
    },
  },

  web: {
    '/weather-page': builtView(
      '/weather-page/view.js',
      new URL('./built/view.js', import.meta.url),
    ),
  },
  views: {
    'weather-card': {
      label: { en: 'Weather', sw: 'Hali ya hewa', fr: 'Météo' },
      module: '/weather-page/view.js',
      within: 'answer',
    },
  },

  routes: {
    'GET /weather/now': {
      auth: 'public',
      summary: 'The current weather of a city.',
      input: z.object({ city, units }),
      output: readingSchema.extend({ ok: z.literal(true) }),
      run: async (ask, { self, signal }) => ({
        ok: true as const,
        ...(await self.current(ask.city, { units: ask.units, signal })),
      }),
    },
  },
})
