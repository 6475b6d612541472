import { publishedClient } from './suite.ts'

publishedClient(18)
