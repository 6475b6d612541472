import { publishedClient } from './published-client/suite.ts'

publishedClient(19)
