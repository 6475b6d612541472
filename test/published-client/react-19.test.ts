import { publishedClient } from './suite.ts'

publishedClient(19)
