import preferences from './preferences/index.ts'
import sampling from './sampling/index.ts'
import weather from './weather/index.ts'

/** The plugins that come with the runtime, as `npm start` loads them. */
export const bundled = [preferences, sampling, weather]
